"""Ordinary hosts are upgraded one after the other, from a repository in the lab; and sshd is set on all of them."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator

import pytest

from tests.support.lab_cluster import KEEP, LAB, REPOSITORY, Cluster
from tests.support.labs import nothing_left, provisioned_lab
from tests.support.package_repository import Package, index

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.needs("dpkg-deb")]

HOSTS = ("plain1", "plain2")
THERE = "/var/tmp/repository"
#: A service that dpkg installs and starts; of the newer version it cannot start.
SERVICE = """[ ! -e /etc/mended ] || exit 0
printf '[Service]\\nExecStart=/bin/%s\\nRemainAfterExit=yes\\n' {} > /etc/systemd/system/tool.service
systemctl daemon-reload
systemctl restart tool.service || true
sleep 1"""
OLD = [Package("sample", "1.0", settings="theirs\n"), Package("tool", "1.0", script=SERVICE.format("true")),
       Package("linux-image-0-test", "1.0")]  # fmt: skip
NEW = [Package("sample", "1.1", settings="newer\n"), Package("linux-image-0-test", "1.1")]
SECURITY = [Package("tool", "1.1", script=SERVICE.format("false"))]


@pytest.fixture(scope="module")
def upgradable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A storage host and two nodes with an ordinary root, on which the old packages are, and the newer ones wait."""
    directory = tmp_path_factory.mktemp("repository")
    lists = {
        "old": index(directory / "old", OLD, suite="stable", build=True),
        "new": index(directory / "new", NEW, suite="stable", build=True)
        + index(directory / "security", SECURITY, suite="stable-security", label="Lab-Security", build=True),
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(directory, ".")
    name = f"{LAB}-upgrade"
    options = ("--light", "--nodes", "1", "--ordinary", "2")
    with provisioned_lab(name, REPOSITORY / ".cache" / f"e2e-{name}", *options) as cluster:
        cluster.fresh()
        for host in HOSTS:
            unpack = [*cluster.ssh_command("admin", host), f"sudo sh -c 'mkdir -p {THERE} && tar -x -C {THERE}'"]
            subprocess.run(unpack, input=packed.getvalue(), check=True)
            write(cluster, host, lists["old"].replace(str(directory), THERE))
            cluster.admin(host, "apt-get -qq update && apt-get -qq -y install sample tool linux-image-0-test 2>&1")
            cluster.admin(host, "apt-mark auto tool; echo mine > /etc/sample.conf")
            write(cluster, host, lists["new"].replace(str(directory), THERE))
        yield cluster
    if not KEEP:
        nothing_left(name)


def write(cluster: Cluster, host: str, lines: str) -> None:
    cluster.admin(host, f"printf '%s' '{lines}' > /etc/apt/sources.list")


def versions(cluster: Cluster, host: str) -> dict[str, str]:
    text = cluster.admin(host, "dpkg-query -W -f '${Package} ${Version}\\n' sample tool linux-image-0-test")
    return dict(line.split(" ") for line in text.splitlines())


def told(cluster: Cluster, *arguments: str) -> tuple[int, str]:
    """How a verb ends, and all that it prints."""
    process = cluster.start(*arguments)
    out, err = process.communicate(timeout=600)
    return process.returncode, out + err


def test_hosts_are_upgraded_one_after_the_other_and_the_first_that_is_not_well_is_the_last(upgradable: Cluster) -> None:
    old = {"sample": "1.0", "tool": "1.0", "linux-image-0-test": "1.0"}
    code, text = told(upgradable, "upgrade", "all", "--security", "--check")
    assert (code, "tool 1.0 → 1.1 (security)" in text, "sample" in text) == (3, True, False), text
    assert "node1 is left out: its root is read-only. Nodes with images:" in text, text
    assert [versions(upgradable, host) for host in HOSTS] == [old, old], "a check upgrades nothing"
    status = upgradable.gpuadmin("status")["result"]["hosts"]
    assert [status[host]["updates"]["security"] for host in HOSTS] == [1, 1]

    # the service of the newer version fails on the first host
    code, text = told(upgradable, "upgrade", *HOSTS, "--security", "--yes")
    says = "tool.service has failed since the upgrade" in text
    assert (code, says, "Not touched: plain2" in text) == (3, True, True), text
    assert versions(upgradable, "plain1") == old | {"tool": "1.1"}
    assert versions(upgradable, "plain2") == old
    code, text = told(upgradable, "upgrade", *HOSTS, "--security", "--yes")
    assert (code, "Not touched: plain2" in text) == (3, True), "it is not well yet"
    mend = "sed -i s,/bin/false,/bin/true, /etc/systemd/system/tool.service && systemctl daemon-reload"
    upgradable.admin("plain1", f"{mend} && systemctl restart tool.service")
    assert upgradable.admin("plain1", "apt-mark showauto tool").strip() == "tool"

    # dpkg was cut off on the second one; a file that an admin has changed stays; a kernel wants a boot
    upgradable.admin("plain2", f"dpkg --unpack {THERE}/new/sample_1.1.deb")
    booted = {host: upgradable.admin(host, "stat -c %Y /run/systemd/system") for host in HOSTS}
    upgradable.admin("plain2", "touch /etc/mended")
    document = upgradable.gpuadmin("upgrade", *HOSTS, "--yes")
    assert document["result"]["untouched"] == []
    assert document["result"]["reboots"] == list(HOSTS)
    assert document["result"]["hosts"]["plain2"]["interrupted"] is True
    for host in HOSTS:
        assert versions(upgradable, host) == {"sample": "1.1", "tool": "1.1", "linux-image-0-test": "1.1"}
        assert upgradable.admin(host, "cat /etc/sample.conf").strip() == "mine"
        assert upgradable.admin(host, "stat -c %Y /run/systemd/system") != booted[host], "it was rebooted"
    after = upgradable.gpuadmin("status")["result"]["hosts"]
    assert [after[host]["updates"]["security"] for host in HOSTS] == [0, 0]
    assert "Nothing to do" in told(upgradable, "upgrade", *HOSTS, "--yes")[1]


SSH = "\naudit: {ssh: {set: true, idle_minutes: 60, passwords: false, root: keys}}\n"
WANTED = {"channeltimeout session:shell=60m", "passwordauthentication no", "kbdinteractiveauthentication no",
          "permitrootlogin without-password"}  # fmt: skip


def sshd(cluster: Cluster, host: str) -> set[str]:
    return set(cluster.admin(host, "/usr/sbin/sshd -T").splitlines())


def test_sshd_is_set_on_all_hosts_and_nobody_with_a_password_alone_is_shut_out(upgradable: Cluster) -> None:
    with upgradable.settings(lambda text: text + SSH):
        upgradable.admin("plain1", "useradd -m -s /bin/bash guest && echo guest:secret | chpasswd")
        code, text = told(upgradable, "provision", "--limit", "plain1", "--yes")
        says = "would shut out who can log in now: guest (has a password and no key)" in text
        assert (code, says) == (3, True), text
        assert "passwordauthentication no" not in sshd(upgradable, "plain1")
        upgradable.admin("plain1", "userdel -r guest 2>&1")
        upgradable.gpuadmin("provision", "--limit", "plain1,storage1", "--yes")
        assert all(sshd(upgradable, host) >= WANTED for host in ("plain1", "storage1"))
        upgradable.admin("plain1", "echo PermitRootLogin yes > /etc/ssh/sshd_config.d/05-own.conf")
        found = upgradable.gpuadmin("drift", "--limit", "plain1", code=3)
        assert "05-own.conf sets PermitRootLogin before" in str(found["hosts"]["plain1"]["message"])
        upgradable.admin("plain1", "rm /etc/ssh/sshd_config.d/05-own.conf")
    found = upgradable.gpuadmin("drift", "--limit", "plain1", code=6)
    assert found["result"]["differing"] == ["plain1"], "what the site does not say any more goes"

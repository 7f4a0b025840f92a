"""Two nodes with homes of their own: they go to the storage host, nobody loses a file, and provision mounts them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import by_hand, independent
from tests.support.by_hand import expiry, facts
from tests.support.lab_cluster import Cluster

pytestmark = [pytest.mark.lab, pytest.mark.slow]
PEOPLE = {"minji": 20001, "jiho": 20002, "yuna": 20003, "mina": 20004, "suji": 20005}
HOMES = "/srv/storage/homes"


@pytest.fixture(scope="module")
def grown() -> Iterator[Cluster]:
    """A storage host and two nodes on which people have worked, each by itself."""
    with by_hand.grown("homes", grow, "--gpus", "2", ordinary=2) as found:
        yield found


def grow(cluster: Cluster) -> None:
    """What people with a shell have on the nodes, and users.yml with them."""
    by_hand.register(cluster, PEOPLE)
    for host, uids in {
        "plain1": {name: PEOPLE[name] for name in ("minji", "jiho", "yuna")},
        "plain2": {"minji": 20001, "yuna": 20009, "mina": 20004, "suji": 20005},
    }.items():
        for name, uid in uids.items():
            by_hand.account(cluster, host, name, uid)
    cluster.person(
        "minji", "plain1",
        "mkdir -p work/deep; echo one > work/deep/file; ln work/deep/file linked; truncate -s 3G sparse; "
        "ln -s /etc/shadow out; touch work/$(printf \"a\\nb\"); head -c 3000000 /dev/urandom > data; mkfifo pipe",
    )  # fmt: skip
    cluster.person("minji", "plain2", "mkdir results; echo two > results/file; echo other > data")
    cluster.person("jiho", "plain1", "echo his > file")
    # a home that is a mount of its own
    cluster.admin("plain2", "mkdir -p /data && mv /home/mina /data/mina && mkdir /home/mina && "
                            "mount --bind /data/mina /home/mina")  # fmt: skip
    by_hand.bring_independent(cluster, "storage1", "plain1", "plain2")
    cluster.gpuadmin("provision", "--limit", "storage1", "--yes")
    # one that comes from the storage host
    cluster.admin("plain2", "mv /home/suji /data/suji && mkdir /home/suji && "
                            f"mount -t nfs4 storage1:{HOMES}/suji /home/suji")  # fmt: skip


def without(found: dict[str, Any], name: str) -> dict[str, Any]:
    inner = name.encode().hex()
    return {path: value for path, value in found.items() if path != inner and not path.startswith(inner + "2f")}


def inside(found: dict[str, Any], name: str) -> dict[str, Any]:
    """What is below a directory of a tree, as a tree of its own."""
    inner = name.encode().hex()
    return {"." if path == inner else path[len(inner) + 2 :]: value for path, value in found.items()
            if path == inner or path.startswith(inner + "2f")}  # fmt: skip


def test_homes_of_nodes_go_to_the_storage_host(grown: Cluster) -> None:
    cluster = grown
    before = {host: facts(cluster, host, "/home/minji") for host in ("plain1", "plain2")}
    his = facts(cluster, "plain1", "/home/jiho")

    # a check says what would happen, and changes nothing
    predicted = cluster.gpuadmin("move-homes", "--check")["result"]
    mains = {(one["name"], one["host"]): one["main"] for one in predicted["homes"]}
    assert mains == {("jiho", "plain1"): True, ("minji", "plain1"): True, ("minji", "plain2"): False}
    assert "gpuadmin renumber yuna" in predicted["left"]["yuna"]
    assert "is a mount of its own" in predicted["left"]["mina"]
    assert "is mounted from elsewhere" in predicted["left"]["suji"]
    assert "ls: cannot access" in cluster.admin("storage1", f"ls -d {HOMES}/.gpuadmin-moving 2>&1 || true")

    # a node that lets root in by no key is named before anything begins
    hardened = "/etc/ssh/sshd_config.d/00-hardened.conf"
    cluster.admin("plain2", f"echo PermitRootLogin no > {hardened}")
    predicted = cluster.gpuadmin("move-homes", "--check")["result"]
    assert "plain2: sshd there lets root in by no key (PermitRootLogin no" in predicted["left"]["minji"]
    cluster.admin("plain2", f"rm {hardened}")

    # somebody who works is copied, and moved only when they are logged out
    with cluster.session("minji", "plain1"):
        first = cluster.gpuadmin("move-homes", "--yes", code=3)["result"]
        assert "runs" in first["left"]["minji"]
        assert {one["name"] for one in first["homes"] if one["moved"]} == {"jiho"}
        assert first["locked_out"] == []
        assert [expiry(cluster, host, "minji") for host in ("plain1", "plain2")] == ["", ""]
        cluster.person("minji", "plain1", "echo more >> work/deep/file; rm data; mkdir new; echo x > new/x")
    assert independent.differences(his, facts(cluster, "storage1", f"{HOMES}/jiho")) == []
    assert cluster.admin("plain1", "ls /home.before").split() == ["jiho"]
    cluster.admin("plain1", "loginctl terminate-user minji")
    cluster.wait(lambda: cluster.ssh("admin", "plain1", "! pgrep -u minji && echo gone"), seconds=60)
    before["plain1"] = facts(cluster, "plain1", "/home/minji")

    # the controller is killed in the middle
    process = cluster.start("move-homes", "--yes")
    cluster.wait(lambda: cluster.ssh("admin", "plain1", "sudo grep ^minji:! /etc/shadow"))
    process.kill()
    process.communicate()
    ended = "! systemctl -q is-active gpuadmin-move-homes.service && echo done"
    cluster.wait(lambda: cluster.ssh("admin", "storage1", ended))
    done = cluster.gpuadmin("move-homes", "--yes")["result"]
    assert all(one["moved"] for one in done["homes"])
    assert [expiry(cluster, host, "minji") for host in ("plain1", "plain2")] == ["", ""]
    assert done["locked_out"] == []
    there = facts(cluster, "storage1", f"{HOMES}/minji")
    assert independent.differences(before["plain1"], without(there, "before-plain2")) == []
    assert independent.differences(before["plain2"], inside(there, "before-plain2")) == []
    for host in ("plain1", "plain2"):
        assert independent.differences(before[host], facts(cluster, host, "/home.before/minji")) == []
        assert "gpuadmin-move-homes" not in cluster.admin(host, "cat /root/.ssh/authorized_keys 2>/dev/null || true")
    assert "renumber yuna" in cluster.gpuadmin("move-homes", "--yes", code=5)["result"]["error"]
    assert [
        expiry(cluster, host, name) for host, name in (("plain1", "yuna"), ("plain2", "mina"), ("plain2", "suji"))
    ] == ["", "", ""]

    # provision mounts them: everybody finds what they had, everywhere
    cluster.admin("plain1", "userdel -r yuna")
    cluster.admin(
        "plain2",
        "userdel -r yuna; umount /home/mina /home/suji; rm -r /home/mina /home/suji; userdel mina; userdel suji",
    )
    cluster.gpuadmin("provision", "--yes")
    assert cluster.person("minji", "plain2", "cat linked new/x before-plain2/results/file").split() == [
        "one", "more", "x", "two",
    ]  # fmt: skip
    assert cluster.person("jiho", "plain2", "cat file").strip() == "his"

    # the old ones go when an admin says so
    cluster.person("minji", "plain1", "rm new/x")
    assert len(cluster.gpuadmin("move-homes", "--discard", "--check")["result"]["discard"]) == 3
    discarded = cluster.gpuadmin("move-homes", "--discard", "--yes", "minji")["result"]
    assert {(one["name"], one["host"]) for one in discarded["discarded"]} == {("minji", "plain1"), ("minji", "plain2")}
    assert cluster.admin("plain1", "ls /home.before").split() == ["jiho"]
    assert cluster.person("minji", "plain1", "cat before-plain2/results/file").strip() == "two"

"""From an empty machine to a node: a stick that a storage host makes, and a machine in QEMU that boots from it.

The storage host is a light one, until homes are wanted; the image is made here, of the root that the lab's virtual
machines have.
"""

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gpuadmin.actions.shared.images import signing_key
from gpuadmin.config.load import load_site
from gpuadmin.lab import network, paths, state
from gpuadmin.lab.light import gpus
from gpuadmin.lab.light import host as light
from tests.support.bare_machine import (
    DISK,
    KERNEL,
    LAN_MAC,
    MAC,
    Machine,
    dhcp_server,
    fill_store,
    machine,
    make_image,
    run,
    send,
    wait_for_stick,
    wait_until,
)  # fmt: skip
from tests.support.gated_cluster import STAND_IN
from tests.support.lab_cluster import KEEP, LAB, REPOSITORY, Cluster
from tests.support.labs import leave_packages_out
from tests.support.where import BOOT

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.btrfs, pytest.mark.virtual(BOOT)]
NODE = "node9"
PLACE = REPOSITORY / ".cache" / "e2e-install"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A storage host with an image in its store, and the site's stick as a file."""
    found = Cluster(PLACE / "site", f"{LAB}-install", light=True)
    try:
        if not (KEEP and (PLACE / "site.img").exists()):
            shutil.rmtree(PLACE, ignore_errors=True)
            found.lab("up", "--light", "--nodes", "0", "--site", str(found.site))
            (PLACE / "image").mkdir()
            key = signing_key(load_site(str(found.site)), make=True)
            fill_store(found, make_image(PLACE / "image", key, "one"))
            found.gpuadmin("install", "--stick", str(PLACE / "site.img"), "--kernel", KERNEL, "--yes")
        yield found
    finally:
        found.end_commands()
        if not KEEP:
            found.lab("down", "--purge")
            shutil.rmtree(PLACE)


KINDS = [
    "bios",
    "uefi",
    "secure",
    *(pytest.param(f"network-{one}", marks=pytest.mark.needs("dnsmasq")) for one in ("bios", "uefi")),
]


@pytest.fixture(params=KINDS)
def bare(cluster: Cluster, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """A machine that has booted the stick, or the same from the network; its host is in the inventory."""
    lan = light.make_name(state.existing(cluster.name))
    with ExitStack() as stack:
        if request.param.startswith("network-"):
            assert "no DHCP server" in str(cluster.gpuadmin("install", "--serve", LAN_MAC, "--yes", code=3))
            stack.enter_context(dhcp_server(lan, tmp_path))
            said = str(cluster.gpuadmin("install", "--serve", LAN_MAC, "--yes"))
            assert f"{LAN_MAC} gets 10.77.0.2" in said
            assert "beware" not in said
            assert "beware" not in str(cluster.gpuadmin("install", "--serve", LAN_MAC, "--check")), "it is no stranger"
        found = stack.enter_context(machine(tmp_path / "machine", PLACE / "site.img", request.param, lan))
        reached = {"ansible_host": "127.0.0.1", "ansible_port": found.port}
        (cluster.site / "inventory/bare.yml").write_text(json.dumps({"gpu": {"hosts": {NODE: reached}}}))
        wait_for_stick(cluster.site, NODE)
        yield found


def test_a_stick(cluster: Cluster) -> None:
    """A disk with four parts, whose host key the site knows; what is there is not replaced."""
    parts = json.loads(run("sfdisk", "--json", PLACE / "site.img"))["partitiontable"]["partitions"]
    assert [part["name"] for part in parts] == ["gpuadmin-bios", "gpuadmin-esp", "gpuadmin-boot", "gpuadmin"]
    assert (PLACE / "site.img").stat().st_mode & 0o777 == 0o600
    known = (cluster.site / "known_hosts").read_text()
    assert known.count("gpuadmin-stick ssh-ed25519 ") == 1
    cluster.gpuadmin("install", "--stick", str(PLACE / "site.img"), "--yes", code=5)
    # nothing of its making stays mounted or attached
    assert cluster.admin("storage1", "grep -c install- /proc/1/mountinfo || true").strip() == "0"
    assert "stick.img" not in run("losetup", "-a")
    assert cluster.admin("storage1", "stat -c %a /srv/storage/images-stick").strip() == "700"
    refused = cluster.gpuadmin("provision", "--yes", code=3)["hosts"]["storage1"]["message"]
    assert "No host is in the group 'gpu'" in refused


def install(cluster: Cluster, *more: str, code: int = 0) -> dict[str, object]:
    arguments = (NODE, "--mac", MAC, "--disk", DISK, "--yes", *more)
    return cluster.gpuadmin("install", *arguments, code=code)


def on_node(cluster: Cluster, command: str) -> str:
    done = subprocess.run(cluster.command("ssh", NODE, command), check=True, capture_output=True, text=True)
    return done.stdout


def test_an_empty_machine_becomes_a_node(cluster: Cluster, bare: Machine) -> None:
    """Looked at, refused, cut off in the middle (by a BIOS), begun anew, booted; and it is what its name says."""
    shown = cluster.gpuadmin("install", NODE, "--mac", MAC, "--yes", code=2)["result"]["error"]
    assert "virtio-EMPTY: 10.7 GB, model unknown\n    nothing is on it" in shown
    # what runs from memory is no disk
    assert ("cannot be taken: vdb3 is in use (/boot/grub)" in shown) == (not bare.by_network)
    again: tuple[str, ...] = ()
    if bare.kind == "bios" and not bare.by_network:
        assert "virtio-STICK is not touched: vdb3 is in use" in str(install(cluster, "--disk", "virtio-STICK", code=3))
        assert bare.is_empty(), "the stick by itself, and what is refused or only looked at, writes nothing"
        begun = cluster.start("install", NODE, "--mac", MAC, "--disk", DISK, "--yes", "--json")
        wait_until("it writes", lambda: not bare.is_empty())
        bare.power_cut()
        begun.communicate(timeout=900)
        assert begun.returncode != 0
        bare.start()
        wait_for_stick(cluster.site, NODE)
        again = ("--erase", NODE)  # whether something can be seen on it depends on the moment of the cut

    bare.boot_from_disk()
    document = install(cluster, *again)
    assert document["result"] == {"image": "one", "disk": DISK}
    root = on_node(cluster, "hostname; findmnt -no FSROOT /; findmnt -no FSROOT /var; btrfs property get -ts / ro")
    assert root.split() == [NODE, "/roots/one", "/state", "ro=true"]
    boot = on_node(cluster, "findmnt -no FSTYPE /boot/grub; ls /sys/firmware | grep -c efi || true")
    assert boot.split() == ["ext4", str(int(bare.kind != "bios"))]
    # a BIOS has no such variable
    enforced = on_node(cluster, "od -An -t u1 -j 4 /sys/firmware/efi/efivars/SecureBoot-* || true")
    assert (enforced.split() == ["1"]) == (bare.kind == "secure")
    assert on_node(cluster, "sudo grub-editenv /boot/grub/grubenv list").strip() == "current=one"
    failed = on_node(cluster, "systemctl is-system-running --wait; systemctl --failed --no-legend")
    assert failed.split() == ["running"], failed
    # a machine that is up as a node is none that can be installed: it does not show the stick's key
    assert cluster.gpuadmin("install", NODE, "--mac", MAC, "--disk", DISK, "--yes", code=4)["status"] == "failed"
    bare.power_cut()
    bare.start("disk")
    wait_until("the node boots", lambda: is_up(cluster))


#: A node's network, where its cards have other uses: one that the admin logs in by, one for the cluster.
CARDS = {
    "10-uplink": f"[Match]\nMACAddress={MAC}\n\n[Network]\nDHCP=yes\n",
    "20-cluster": f"[Match]\nMACAddress={LAN_MAC}\n\n[Network]\nAddress={network.node_address(9)}/24\n",
}


@pytest.fixture
def served(cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """A site whose storage host is a virtual machine, with NFS. Its keys and its stick are those of the other one."""
    found = Cluster(tmp_path / "site", f"{LAB}-served")
    old, new = state.existing(cluster.name).directory, paths.state_directory() / found.name
    new.mkdir(mode=0o700)
    for key in old.glob("id_ed25519*"):
        shutil.copy2(key, new)
    try:
        found.lab("up", "--nodes", "0", "--site", str(found.site))
        leave_packages_out(found)
        for key in cluster.site.glob("image_signing_key*"):
            shutil.copy2(key, found.site)
        send(found, PLACE / "image/store", "/srv/storage/images")
        known = (cluster.site / "known_hosts").read_text().splitlines(keepends=True)
        with (found.site / "known_hosts").open("a") as file:
            file.writelines(line for line in known if line.startswith("gpuadmin-stick "))
        yield found
    finally:
        found.end_commands()
        found.lab("down", "--purge")


def test_what_was_installed_is_a_node(served: Cluster, tmp_path: Path) -> None:
    """Two cards with files of their own, homes over NFS, a container; the next image is pushed to it; a job."""
    wire = state.existing(served.name).cluster_port
    with machine(tmp_path / "machine", PLACE / "site.img", "uefi", port=wire) as bare:
        reached = {"ansible_host": "127.0.0.1", "ansible_port": bare.port, "gpuadmin_address": network.node_address(9)}
        groups = {"gpu": {"hosts": {NODE: reached}}, "golden": {"hosts": {NODE: {}}}}
        inventory = served.site / "inventory/bare.yml"
        inventory.write_text(json.dumps({"all": {"children": groups}}))
        wait_for_stick(served.site, NODE)
        bare.boot_from_disk()
        files = [tmp_path / f"{name}.network" for name in CARDS]
        for file in files:
            file.write_text(CARDS[file.stem])
        install(served, *(word for file in files for word in ("--network", str(file))))

        served.gpuadmin("provision", "--yes")
        served.gpuadmin("prepare-root", "--yes")
        again = served.gpuadmin("provision", "--yes")["hosts"]
        assert {host: found["changed"] for host, found in again.items()} == {NODE: [], "storage1": []}

        served.add("minji")
        assert as_minji(served, bare, "echo kept >~/f; findmnt -no FSTYPE -T ~ | tail -n 1; id -un") == "nfs4\nminji\n"
        container = "tar -c /bin/busybox | docker import - box >&2; docker run --rm box /bin/busybox id -u"
        assert as_minji(served, bare, container) == "0\n"

        served.gpuadmin("build-image", "two", "--no-trial", "--yes")
        streams = served.gpuadmin("list-images")["result"]["store"]["two"]["manifest"]["streams"]
        assert [stream["parent"]["name"] for stream in streams] == ["one"], "an installed root is an image like others"
        served.gpuadmin("push-image", "two", "--yes")
        assert served.gpuadmin("list-images")["result"]["nodes"][NODE]["image"] == "two"
        assert as_minji(served, bare, f"cat ~/f; docker images -q | wc -l; {container}") == "kept\n1\n0\n"
        served.gpuadmin("drift")

        on_node(served, f"sudo sh -c {shlex.quote(STAND_IN)}")
        reached |= {**gpus.variables(1), "gpus": 1, "gpu_model": "NVIDIA H100 PCIe"}
        groups["slurm"] = {"hosts": {"storage1": {}}}
        inventory.write_text(json.dumps({"all": {"children": groups}}))
        with served.settings(lambda text: f"{text}\ngpus: {{access: granted}}\nslurm: {{hours: 4}}\n"):
            served.gpuadmin("provision", "--yes")
            opens = ": </dev/nvidia0 && echo opened"
            # refused is what is wanted, and its words are looked at
            assert "not permitted" in as_minji(served, bare, f"({opens}) 2>&1 || true")
            assert as_minji(served, bare, f"gpu run -- sh -c {shlex.quote(opens)}").endswith("opened\n")


def as_minji(cluster: Cluster, bare: Machine, command: str) -> str:
    options = {
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": cluster.site / "known_hosts",
        "IdentitiesOnly": "yes",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    login = ("ssh", "-F", "none", "-i", str(cluster.keys / "minji"), "-p", str(bare.port), *words, "minji@127.0.0.1")
    return run(*login, f"bash -lc {shlex.quote(command)}")


def is_up(cluster: Cluster) -> bool:
    return subprocess.run(cluster.command("ssh", NODE, "true"), check=False, capture_output=True).returncode == 0

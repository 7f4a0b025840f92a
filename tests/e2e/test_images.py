"""Images as an admin uses them, on real boots: built on one node, pushed to the other, gone back from."""

import subprocess

import pytest

from tests.support.imaging import (
    PACKAGE,
    Whole,
    build_broken,
    has_package,
    judged_at_once,
    node_report,
    running,
    words,
)
from tests.support.lab_cluster import PATIENCE, Cluster
from tests.support.terminal import at_terminal
from tests.support.where import IMAGE

pytestmark = [pytest.mark.lab, pytest.mark.virtual(IMAGE)]
#: CI has time for one: what comes before the others, a build with a trial, takes eight minutes without KVM.
slow = pytest.mark.slow


@pytest.mark.long
def test_an_image_whose_sshd_is_broken_falls_back(cluster: Cluster) -> None:
    """Built, pushed, tried by a boot, and back."""
    cluster.add("minji")
    whole = Whole(cluster)
    build_broken(cluster, "sshd-is-broken")
    judged_at_once(cluster, "node2")
    document = cluster.gpuadmin("push-image", "sshd-is-broken", "--limit", "node2", "--yes", code=3)
    assert "sshd" in document["hosts"]["node2"]["message"]
    whole.check("base")
    assert "sshd" in node_report(cluster, "node2")["refused"]["sshd-is-broken"]


@slow
def test_push_rollback_and_the_people_on_it(imaged: Cluster) -> None:
    """A user added before the push, before the reboot and after it is there after push and rollback."""
    whole = Whole(imaged)
    assert not has_package(imaged, "node2")
    imaged.gpuadmin("push-image", "one", "--no-reboot", "--yes")
    assert words(imaged, "node2")["trial"] == "one"
    assert running(imaged, "node2") == "base"
    imaged.add("jiho")
    document = imaged.gpuadmin("push-image", "one", "--yes")
    (done,) = (host["changed"] for host in document["hosts"].values())
    assert done == ["Reboot, and wait for the outcome of the trial"], "all was ready; only the reboot was left"
    whole.check("one")
    assert has_package(imaged, "node2")
    assert document["result"]["seconds"]["node2"]["boot"] > 0
    imaged.add("sora")
    for name in ("minji", "jiho", "sora"):
        assert imaged.person(name, "node2", "touch ~/here && id -un").strip() == name

    # once more is nothing
    again = imaged.gpuadmin("push-image", "one", "--yes")
    assert again["status"] == "ok"
    assert again["hosts"] == {}

    imaged.gpuadmin("rollback-image", "--limit", "node2", "--yes")
    whole.check("base")
    assert not has_package(imaged, "node2")
    for name in ("minji", "jiho", "sora"):
        assert imaged.person(name, "node2", "id -un").strip() == name
    report = node_report(imaged, "node2")
    assert report["running"] == report["current"] == "base"
    assert report["held"].keys() >= {"base", "one"}


@slow
def test_what_the_store_says(imaged: Cluster) -> None:
    store = imaged.gpuadmin("list-images")["result"]["store"]
    manifest = store["one"]["manifest"]
    assert [stream["parent"]["name"] for stream in manifest["streams"]] == ["base"]
    assert PACKAGE in imaged.gpuadmin("list-images", "one")["result"]["changes"]["added"]
    (problem,) = imaged.gpuadmin("list-images", "one", "--verify", code=1)["result"]["problems"]
    assert "its parent base is not in the store" in problem
    assert imaged.admin("storage1", "stat -c '%a %U' /srv/storage/images").split() == ["700", "root"]
    # nothing of the golden node is in it
    mount = "mkdir -p /run/top; mount -o subvolid=5 LABEL=gpuadmin /run/top"
    image = "/run/top/images/one"
    left = imaged.admin(
        "node1",
        f"{mount}; ls {image}/etc/ssh; stat -c %s {image}/etc/machine-id; ls {image}/etc/hostname || true; "
        f"grep -c minji {image}/etc/passwd || true; umount /run/top",
    )
    assert "ssh_host" not in left
    assert left.split()[-2:] == ["0", "0"]


@slow
def test_a_flipped_byte_in_the_store(imaged: Cluster) -> None:
    stream = "/srv/storage/images/one/from-base.btrfs.zst"
    imaged.admin("storage1", f"printf x | dd of={stream} bs=1 seek=100000 conv=notrunc status=none; sync")
    problems = imaged.gpuadmin("list-images", "one", "--verify", code=1)["result"]["problems"]
    assert problems == [
        "from-base.btrfs.zst has another sha256 than its manifest says",
        "its parent base is not in the store: only nodes that hold it can receive one; "
        "gpuadmin build-image one --full makes it complete",
    ]
    document = imaged.gpuadmin("push-image", "one", "--yes", code=3)
    assert "another sha256 than its manifest says" in document["hosts"]["node2"]["message"]
    assert running(imaged, "node2") == "base"
    assert words(imaged, "node2").get("trial", "") == ""


@slow
def test_nobody_is_sent_away_without_being_asked(imaged: Cluster) -> None:
    session = subprocess.Popen(
        [*imaged.ssh_command("minji", "node2"), "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    try:
        imaged.wait(lambda: imaged.ssh("admin", "node2", "loginctl list-sessions | grep minji"))
        refused = imaged.gpuadmin("push-image", "one", "--yes", code=5)
        assert "in use by minji" in refused["result"]["error"]
        assert running(imaged, "node2") == "base"
        waiting = imaged.start("push-image", "one", "--when-idle", "--yes", "--json")
        imaged.wait(lambda: imaged.ssh("admin", "node2", "sudo grep trial=one /boot/grub/grubenv"))
        imaged.wait(lambda: imaged.ssh("admin", "node2", "cat /run/motd.d/gpuadmin"))
        with at_terminal(imaged.ssh_command("minji", "node2")) as terminal:
            terminal.sees("as soon as nobody uses it")
        assert running(imaged, "node2") == "base"
    finally:
        session.communicate()  # what she runs ends with its input
    out, err = waiting.communicate(timeout=900)
    assert waiting.returncode == 0, out + err
    assert running(imaged, "node2") == "one"


#: Names a repository in the node's /var, which a build sees, in the root, which is opened for it.
SOURCES = """
set -e
btrfs property set -ts / ro false
echo "deb [trusted=yes] file:/var/tmp/repository ./" >/etc/apt/sources.list
btrfs property set -ts / ro true
"""
#: That repository, with a newer package than the one that is installed.
NEWER_PACKAGE = """
set -e
cd /var/tmp && mkdir -p repository && cd repository
for version in 1 2; do
  mkdir -p $version/DEBIAN $version/usr/share/sample
  printf 'Package: sample\\nVersion: %s\\nArchitecture: all\\nMaintainer: x <x@example.org>\\nDescription: x\\n' \
    $version >$version/DEBIAN/control
  echo $version >$version/usr/share/sample/version
  dpkg-deb --build $version sample_$version.deb >&2
done
{ cat 2/DEBIAN/control; echo "Filename: ./sample_2.deb"; echo "Size: $(stat -c %s sample_2.deb)"
  echo "SHA256: $(sha256sum sample_2.deb | cut -d" " -f1)"; } >Packages
btrfs property set -ts / ro false
dpkg -i sample_1.deb >&2
btrfs property set -ts / ro true
"""


@slow
def test_an_upgrade(cluster: Cluster) -> None:
    """Of all packages, from their repositories; one that is not there is not one that has nothing new."""
    cluster.admin("node1", SOURCES)
    document = cluster.gpuadmin("build-image", "nothing", "--upgrade", "--no-trial", "--yes", code=3)
    assert "E: Failed to fetch" in document["hosts"]["node1"]["message"]
    assert "nothing" not in cluster.gpuadmin("list-images")["result"]["store"]

    cluster.admin("node1", NEWER_PACKAGE)
    cluster.gpuadmin("build-image", "upgraded", "--upgrade", "--no-trial", "--yes")
    changes = cluster.gpuadmin("list-images", "upgraded")["result"]["changes"]
    assert changes["added"]["sample"] == "2"
    version = "cat /usr/share/sample/version; dpkg-query -Wf '${Version}' sample"
    assert cluster.admin("node1", version).split() == ["1", "1"], "the node itself is as it was"


@slow
def test_people_are_told_before_a_reboot(imaged: Cluster) -> None:
    with at_terminal(imaged.ssh_command("minji", "node2")) as terminal:
        terminal.sees("minji@node2")
        push = imaged.start("push-image", "one", "--force", "--yes", "--json")
        terminal.sees("This node reboots now into another system (one).", seconds=PATIENCE)
        assert running(imaged, "node2") == "base", "she has a minute"
        out, err = push.communicate(timeout=PATIENCE)
    assert push.returncode == 0, out + err
    assert running(imaged, "node2") == "one"


@slow
def test_a_build_by_hand(imaged: Cluster) -> None:
    """In a shell in the new root; what is done there is in the image, and not on the node."""
    build = imaged.command("build-image", "by-hand", "--shell", "--no-trial")
    with at_terminal(build) as terminal:
        terminal.sees("whatever you do in a shell")
        terminal.types("y")
        terminal.sees("root@node1", seconds=PATIENCE)
        terminal.types("echo done >/etc/by-hand; systemctl is-system-running; exit 0")
        terminal.sees("offline")
        assert terminal.ends(seconds=PATIENCE) == 0
    assert "by-hand" in imaged.gpuadmin("list-images")["result"]["store"]
    mount = "mkdir -p /run/top; mount -o subvolid=5 LABEL=gpuadmin /run/top"
    output = imaged.admin("node1", f"{mount}; cat /run/top/images/by-hand/etc/by-hand; umount /run/top; ls /etc")
    assert output.split()[0] == "done"
    assert "by-hand" not in output.split()


@slow
def test_a_full_stream_makes_the_store_complete(imaged: Cluster) -> None:
    imaged.gpuadmin("build-image", "one", "--full", "--yes")
    assert imaged.gpuadmin("list-images", "one", "--verify")["result"]["problems"] == []
    imaged.gpuadmin("push-image", "one", "--full", "--yes")
    assert running(imaged, "node2") == "one"


@slow
def test_drift_is_seen(imaged: Cluster) -> None:
    assert node_report(imaged, "node1")["drift"] == []
    imaged.admin("node1", "btrfs property set -ts / ro false; apt-get -y remove rsync >/dev/null; sync")
    (writable, packages) = node_report(imaged, "node1")["drift"]
    assert writable == "its root is writable"
    assert packages == f"1 package differs from its image: {PACKAGE}"


@slow
def test_prune_keeps_what_is_needed(imaged: Cluster) -> None:
    imaged.gpuadmin("push-image", "one", "--yes")
    for name in ("two", "three"):
        imaged.gpuadmin("build-image", name, "--no-trial", "--yes")
    document = imaged.gpuadmin("prune-images", "--keep", "1", "--yes")
    assert document["status"] == "ok"
    left = imaged.gpuadmin("list-images")["result"]
    # `three` is the newest, `two` its parent or not needed; `one` runs on both nodes
    assert "one" in left["store"]
    assert "three" in left["store"]
    for node in ("node1", "node2"):
        assert left["nodes"][node]["running"] == "one"
        assert left["nodes"][node]["rollback"] == "base"
    imaged.gpuadmin("rollback-image", "--limit", "node2", "--yes")
    assert running(imaged, "node2") == "base"

"""Subvolumes of images and roots: what is needed is not deleted, and what is not known decides nothing."""

from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import subvolumes

from tests.unit.node.images.conftest import Node, run

pytestmark = pytest.mark.btrfs


def names(directory: str) -> list[str]:
    return [path.name for path in Path(directory).iterdir()]


def test_the_running_root_is_never_deleted(node: Node) -> None:
    with pytest.raises(NodeError, match="is the running root"):
        subvolumes.delete(node.places.in_top("roots/base"), node.places)
    # by id: renamed away, another root under its name, it is still the running one
    (node.top / "roots/base").rename(node.top / "roots/other")
    run("btrfs", "subvolume", "create", node.top / "roots/base")
    with pytest.raises(NodeError, match="is the running root"):
        subvolumes.delete(node.places.in_top("roots/other"), node.places)
    subvolumes.delete(node.places.in_top("roots/base"), node.places)


def test_a_mounted_subvolume_is_never_deleted(node: Node, tmp_path: Path) -> None:
    run("btrfs", "subvolume", "create", node.top / "roots/x")
    point = tmp_path / "point"
    point.mkdir()
    device = run("findmnt", "-n", "-o", "SOURCE", node.top).split("[")[0].strip()
    run("mount", "-o", "subvol=/roots/x", device, point)
    try:
        with pytest.raises(NodeError, match="is mounted on"):
            subvolumes.delete(node.places.in_top("roots/x"), node.places)
    finally:
        run("umount", point)
    subvolumes.delete(node.places.in_top("roots/x"), node.places)


def test_what_the_host_has_mounted_counts_and_not_only_what_we_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit has a mount namespace of its own, which lacks what was mounted after it began."""
    line = "1 0 0:30 /roots/x /mnt rw - btrfs /dev/sda2 rw,subvolid=300,subvol=/roots/x\n"
    monkeypatch.setattr(subvolumes, "read_mountinfo", lambda process="self": line if process == "1" else "")
    assert subvolumes.mounted_ids("/dev/sda2") == {300: ["/mnt"]}


def test_a_disk_is_known_by_all_its_names(tmp_path: Path) -> None:
    (tmp_path / "sda2").touch()
    (tmp_path / "by-label").symlink_to("sda2")
    line = f"1 0 0:30 /roots/x /mnt rw - btrfs {tmp_path}/by-label rw,subvolid=300,subvol=/roots/x\n"
    assert subvolumes.mounted_ids(f"{tmp_path}/sda2", line) == {300: ["/mnt"]}


def test_a_subvolume_goes_with_those_in_it_unless_one_is_needed(node: Node) -> None:
    """Also one inside of a read-only one, at any depth; an id that is to be kept keeps all of it."""
    top = node.top / "incoming"
    for path in ("a", "a/b", "a/c", "a/c/d"):
        run("btrfs", "subvolume", "create", top / path)
    (top / "a/c/d/file").write_text("x")
    for path in ("a/c", "a"):
        run("btrfs", "property", "set", "-ts", top / path, "ro", "true")
    inner = btrfs.inspect(str(top / "a/c/d"))
    assert inner is not None
    with pytest.raises(NodeError, match=r"a/c/d \(id \d+\) is still needed"):
        subvolumes.delete(str(top / "a"), node.places, keep=[inner.id])
    assert (top / "a/c/d/file").read_text() == "x"
    subvolumes.delete(str(top / "a"), node.places)
    assert names(str(top)) == []


def test_a_snapshot_replaces_nothing(node: Node) -> None:
    """btrfs itself would make it inside of a directory that is there; and what is not a subvolume is not deleted."""
    (node.top / "roots/taken").mkdir()
    with pytest.raises(NodeError, match="exists already"):
        btrfs.snapshot(str(node.top / "roots/base"), str(node.top / "roots/taken"), read_only=False)
    assert names(str(node.top / "roots/taken")) == []
    with pytest.raises(NodeError, match="is not a subvolume; it is left alone"):
        subvolumes.delete(str(node.top / "roots/taken"), node.places)
    assert (node.top / "roots/taken").exists()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1 0 8:1 / / rw - ext4 /dev/sda1 rw,subvolid=256", "root is ext4, not a btrfs subvolume"),
        ("1 0 0:30 /roots/a / rw - btrfs /dev/sda2 rw", "subvolume id is not in mountinfo"),
        ("1 0 0:30 /roots/a /elsewhere rw - btrfs /dev/sda2 rw,subvolid=256", "root is unknown"),
    ],
)
def test_a_root_that_is_not_known_decides_nothing(node: Node, line: str, words: str) -> None:
    with pytest.raises(NodeError, match=words):
        subvolumes.running_root(replace(node.places, running=None), line)


def test_a_writable_image_is_none(node: Node) -> None:
    """A delete that was cut off leaves one: it is not what was received any more."""
    node.push("one")
    image = btrfs.inspect(node.places.in_top("images/one"))
    assert image is not None
    uuid = image.received_uuid
    assert uuid is not None
    assert subvolumes.is_image(image, uuid)
    assert not subvolumes.is_image(replace(image, read_only=False), uuid)
    assert not subvolumes.is_image(image, image.uuid), "a received image is known by its received_uuid alone"

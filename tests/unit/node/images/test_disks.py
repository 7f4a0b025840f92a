"""What is on a machine's disks, and which of them may be taken: from what lsblk says to an answer."""

import errno
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import disks

from gpuadmin.ansible.reports import parsed
from gpuadmin.common.records.installs import Disk, Machine

GB = 10**9
NAME = "nvme-ODD_1234"


def part(name: str, kind: str = "part", **more: Any) -> dict[str, Any]:
    return {
        "name": name, "path": f"/dev/{name}", "type": kind, "size": 500 * GB, "model": None, "fstype": None,
        "label": None, "partlabel": None, "mountpoint": None, **more,
    }  # fmt: skip


def look(tmp_path: Path, *blocks: dict[str, Any]) -> dict[str, Disk]:
    by_id = tmp_path / "by-id"
    by_id.mkdir()
    (by_id / NAME).symlink_to("/dev/sda")
    (by_id / f"{NAME}-part1").symlink_to("/dev/sda1")
    return disks.look(lambda: json.dumps({"blockdevices": blocks}), str(by_id))


def test_memory_is_no_disk(tmp_path: Path) -> None:
    """A machine that was booted from the network runs from it."""
    assert list(look(tmp_path, part("zram0", "disk"), part("sda", "disk"))) == ["/dev/sda"]


#: What is below the disk sda → what is said of it, and why it cannot be taken (nothing if it can).
CASES: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "nothing": ({}, [], ""),
    "a file system on the whole disk": (
        {"fstype": "xfs", "label": "scratch"}, ["sda: xfs, 'scratch', 500.0 GB"], "",
    ),
    "somebody's Windows and Linux": (
        {"children": [part("sda1", fstype="ntfs", label="Windows", partlabel="Basic data"),
                      part("sda2", fstype="swap", size=GB)]},
        ["sda1: ntfs, 'Windows', 'Basic data', 500.0 GB", "sda2: swap, 1.0 GB"], "",
    ),
    "a partition with nothing that is known": (
        {"children": [part("sda1")]}, ["sda1: no file system that is known, 500.0 GB"], "",
    ),
    "a mounted partition": (
        {"children": [part("sda1", fstype="btrfs", mountpoint="/var")]}, ["sda1: btrfs, 500.0 GB"],
        "sda1 is in use (/var)",
    ),
    "swap that is on": (
        {"children": [part("sda1", fstype="swap", mountpoint="[SWAP]")]}, ["sda1: swap, 500.0 GB"],
        "sda1 is in use ([SWAP])",
    ),
    "a mounted disk": ({"fstype": "xfs", "mountpoint": "/srv"}, ["sda: xfs, 500.0 GB"], "sda is in use (/srv)"),
    "LVM": (
        {"children": [part("sda1", fstype="LVM2_member", children=[part("vg-home", "lvm", fstype="xfs")])]},
        ["sda1: LVM2_member, 500.0 GB", "vg-home: xfs, 500.0 GB"],
        "vg-home (lvm) is made of it: stop it first (vgchange -an, mdadm --stop)",
    ),
    "RAID": (
        {"children": [part("md0", "raid1")]}, ["md0: no file system that is known, 500.0 GB"],
        "md0 (raid1) is made of it: stop it first (vgchange -an, mdadm --stop)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_on_a_disk(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below, parts, busy = CASES[case]
    monkeypatch.setattr(disks, "_holds_something", lambda device: False)
    found = look(
        tmp_path, part("sda", "disk", model="ODD ", **below), part("sr0", "rom"), part("zram0", "disk", size=0)
    )
    assert found == {"/dev/sda": Disk([NAME], 500 * GB, "ODD", parts, busy)}


@pytest.mark.holds("a disk whose maker gave it an odd name hides no other from the admin")
def test_an_odd_disk_is_told_within_bounds(tmp_path: Path) -> None:
    """A name that is none here, and a thousand volumes: whoever reads refuses a report that is beyond its bounds."""
    by_id = tmp_path / "by-id"
    by_id.mkdir()
    for name in (NAME, "usb-ODD#1", "usb-\x1b[2J", *(f"wwn-{number}" for number in range(60))):
        (by_id / name).symlink_to("/dev/sda")
    volumes = [part(f"vg-{number}", "lvm") for number in range(1000)]
    blocks = [part("sda", "disk", model="M" * 500, children=volumes)]
    report = asdict(Machine("one", list(disks.look(lambda: json.dumps({"blockdevices": blocks}), str(by_id)).values())))
    (found,) = parsed("machine", report)["disks"]
    assert (len(found["names"]), found["names"][0], found["parts"][-1]) == (50, NAME, "and 701 more")


def test_where_it_was_mounted_last(tmp_path: Path) -> None:
    device = tmp_path / "ext4"
    device.write_bytes(bytes(1024 + 0x88) + b"/srv/data\0more" + bytes(100))
    one = part("sda1", path=str(device), fstype="ext4")
    (found,) = look(tmp_path, part("sda", "disk", children=[one])).values()
    assert found.parts == ["sda1: ext4, 500.0 GB, last mounted on '/srv/data'"]


@pytest.mark.parametrize(
    ("content", "parts"),
    [(bytes(4096), []), (bytes(4000) + b"secret", ["sda: no file system that is known, 500.0 GB"])],
)
def test_what_nobody_knows_is_not_nothing(content: bytes, parts: list[str], tmp_path: Path) -> None:
    """Such as encrypted data, or a table of partitions that is damaged."""
    device = tmp_path / "disk"
    device.write_bytes(content)
    (found,) = look(tmp_path, part("sda", "disk", path=str(device))).values()
    assert found.parts == parts
    assert disks._holds_something(str(tmp_path)), "nor what cannot be read"


FREE = Disk([NAME], 500 * GB, "", [], "")


@pytest.mark.parametrize(
    ("name", "disk", "need", "why"),
    [
        ("nvme-OTHER", FREE, GB, "has no disk nvme-OTHER"),
        (f"{NAME}-part1", FREE, GB, "has no disk"),
        (NAME, Disk([NAME], 500 * GB, "", [], "sda1 is in use (/)"), GB, "is not touched: sda1 is in use"),
        (NAME, FREE, 501 * GB, "has 500.0 GB, and 501.0 GB are needed"),
    ],
)
def test_what_is_not_taken(name: str, disk: Disk, need: int, why: str) -> None:
    with pytest.raises(NodeError, match=why.replace("(", r"\(")):
        disks.choose(name, need, {"/dev/null": disk})


@pytest.mark.parametrize(
    ("there", "shown"), [(["sda1: ext4"], []), ([], ["sda1: ext4"]), (["sda1: xfs"], ["sda1: ext4"])]
)
def test_a_disk_is_the_one_that_was_seen(there: list[str], shown: list[str]) -> None:
    """Somebody may have changed it, or what is on it, while the name was typed."""
    disk = Disk([NAME], 500 * GB, "", there, "")
    with pytest.raises(NodeError, match=f"has something else on it by now .{(there or ['nothing'])[0]}"):
        disks.choose(NAME, GB, {"/dev/null": disk}, shown)
    assert disks.choose(NAME, GB, {"/dev/null": disk}, there) == "/dev/null"


def test_what_the_kernel_has_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lsblk has missed: a disk that something holds exclusively is not opened so a second time."""
    assert disks.choose(NAME, GB, {"/dev/null": FREE}) == "/dev/null"

    def taken(path: str, flags: int) -> int:
        assert flags & os.O_EXCL
        raise OSError(errno.EBUSY, "busy")

    monkeypatch.setattr(os, "open", taken)
    with pytest.raises(NodeError, match="is not touched: busy"):
        disks.choose(NAME, GB, {"/dev/null": FREE})

"""btrfs subvolumes: what they are (asked of the kernel), snapshots, and deleting, which is guarded by ids."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass

from .. import btrfs
from ..errors import NodeError
from ..mounts import nearest, parse_mountinfo, read_mountinfo
from ..root.guard import set_read_only, sync
from ..run import run
from .places import Places, Running

__all__ = ["Subvolume", "delete", "inspect", "listing", "mounted_ids", "running_root", "set_read_only", "sync"]


@dataclass(frozen=True)
class Subvolume:
    """A subvolume. uuids are lower-case text; None where it has none."""

    path: str
    id: int
    uuid: str
    parent_uuid: str | None
    received_uuid: str | None
    read_only: bool

    def is_image(self, wanted: str) -> bool:
        """Whether it is pristine and the image with that uuid: received, or made on this very disk."""
        return self.read_only and wanted == (self.received_uuid or self.uuid)


def inspect(path: str) -> Subvolume | None:
    """Given a path, return the subvolume that it is; None if there is nothing or something else."""
    try:
        handle = btrfs.open_directory(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if os.fstat(handle).st_ino != btrfs.SUBVOLUME_INODE:
            return None
        found = btrfs.subvolume_of(handle)
    finally:
        os.close(handle)
    if found is None:
        return None
    return Subvolume(
        path, found.tree, found.uuid, found.parent_uuid or None, found.received_uuid or None, found.read_only
    )


def listing(directory: str) -> dict[str, Subvolume]:
    """The subvolumes directly in a directory, by name."""
    found = {}
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
        subvolume = inspect(os.path.join(directory, name))
        if subvolume is not None:
            found[name] = subvolume
    return found


def _mountinfo() -> str:
    # of process 1: our own mount namespace may be a private one
    path = "/proc/1/mountinfo" if os.access("/proc/1/mountinfo", os.R_OK) else "/proc/self/mountinfo"
    with open(path, encoding="utf-8", errors="surrogateescape") as stream:
        return stream.read()


def mounted_ids(source: str, text: str | None = None) -> dict[int, list[str]]:
    """Subvolume id → where it is mounted, of every mounted subvolume of the file system on a device."""
    found: dict[int, list[str]] = {}
    for line in (_mountinfo() if text is None else text).split("\n"):
        left, separator, right = line.partition(" - ")
        rest = right.split(" ")
        if separator and rest[0] == "btrfs" and os.path.realpath(rest[1]) == os.path.realpath(source):
            match = re.search(r"(?:^|,)subvolid=(\d+)", rest[-1])
            if match:
                found.setdefault(int(match.group(1)), []).append(left.split(" ")[4])
    return found


def running_root(places: Places, text: str | None = None) -> Running:
    """The root that runs, from mountinfo. Raises NodeError where the root is no btrfs subvolume."""
    if places.running is not None:
        return places.running
    found = None
    for line in (_mountinfo() if text is None else text).split("\n"):
        left, separator, right = line.partition(" - ")
        parts, rest = left.split(" "), right.split(" ")
        if separator and len(parts) > 5 and parts[4] == "/":
            found = (parts[3], rest[0], rest[-1])
    if found is None or found[1] != "btrfs":
        raise NodeError(f"this host's root is {found[1] if found else 'unknown'}, not a btrfs subvolume")
    match = re.search(r"(?:^|,)subvolid=(\d+)", found[2])
    if match is None:
        raise NodeError("the running root's subvolume id is not in mountinfo; nothing can be decided without it")
    return Running(int(match.group(1)), found[0])


def snapshot(source: str, target: str, *, read_only: bool = False) -> None:
    """Make a snapshot; the target must not exist."""
    if os.path.lexists(target):
        raise NodeError(f"{target} exists already")
    flags = ("-r",) if read_only else ()
    run(("btrfs", "-q", "subvolume", "snapshot", *flags, source, target), what=f"no snapshot of {source}")


def delete(path: str, places: Places, *, keep: Collection[int] = (), durable: bool = True) -> None:
    """Delete a subvolume and those in it, unless one is the running root, mounted anywhere, or to be kept: by id.

    Not ``durable``: after a power cut it may be there again.
    """
    found = inspect(path)
    if found is None:
        raise NodeError(f"{path} is no subvolume; it is left alone")
    above = nearest(os.path.realpath(path), parse_mountinfo(read_mountinfo()))
    if above is None or above.fstype != "btrfs":
        raise NodeError(f"{path} lies on no mounted btrfs; it is left alone")
    mounted = mounted_ids(above.source)
    inner = _inside(path)
    for one in [*inner, found]:
        if one.id == running_root(places).id:
            raise NodeError(f"{one.path} (id {one.id}) is the running root; it is never deleted")
        if one.id in mounted:
            raise NodeError(f"{one.path} (id {one.id}) is mounted on {mounted[one.id][0]}; it is not deleted")
        if one.id in keep:
            raise NodeError(f"{one.path} (id {one.id}) is still needed; it is not deleted")
    for one in [found, *inner] if inner else []:
        if one.read_only:
            set_read_only(one.path, False)  # nothing can be taken out of a read-only one
    for one in [*inner, found]:
        run(
            ("btrfs", "-q", "subvolume", "delete", *(("--commit-after",) if durable else ()), one.path),
            what=f"{one.path} is not deleted",
        )


def _inside(path: str) -> list[Subvolume]:
    """The subvolumes below a path, the deepest first."""
    found = [inspect(os.path.join(path, one)) for one in btrfs.nested(path)]
    return [one for one in reversed(found) if one is not None]

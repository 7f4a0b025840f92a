"""The root that runs, and deleting subvolumes, which is guarded by ids: never that root, nor what is mounted."""

from __future__ import annotations

import os
from collections.abc import Collection

from .. import btrfs
from ..btrfs import Subvolume
from ..errors import NodeError
from ..mounts import mounted_on, nearest, parse_mountinfo, read_mountinfo
from ..root import guard
from .places import Places, Running


def is_image(found: Subvolume, wanted: str) -> bool:
    """Whether a subvolume is pristine and the image with that uuid: received, or made on this very disk."""
    return (
        found.read_only and wanted == (found.received_uuid or found.uuid)  # guard: an image that is writable is none
    )


def _mountinfo() -> str:
    # guard: what is mounted is asked of process 1 -> read_mountinfo()
    return read_mountinfo("1" if os.access("/proc/1/mountinfo", os.R_OK) else "self")  # ours may be a private one


def mounted_ids(source: str, text: str | None = None) -> dict[int, list[str]]:
    """Subvolume id → where it is mounted, of every mounted subvolume of the file system on a device."""
    found: dict[int, list[str]] = {}
    for mount in parse_mountinfo(_mountinfo() if text is None else text):
        identifier = mount.subvolume_id
        # guard: a disk that was mounted by another of its names is the same disk -> mount.source == source
        same = os.path.realpath(mount.source) == os.path.realpath(source)
        if identifier is not None and same:
            found.setdefault(identifier, []).append(mount.point)
    return found


def running_root(places: Places, text: str | None = None) -> Running:
    """The root that runs, from mountinfo. Raises NodeError if the root is not a btrfs subvolume."""
    if places.running is not None:
        return places.running
    found = mounted_on("/", parse_mountinfo(_mountinfo() if text is None else text))
    if (
        found is None
        or found.fstype != "btrfs"  # guard: the running root is known from mountinfo or nothing is decided
    ):
        raise NodeError(f"this host's root is {found.fstype if found else 'unknown'}, not a btrfs subvolume")
    identifier = found.subvolume_id
    if identifier is None:
        raise NodeError("the running root's subvolume id is not in mountinfo; nothing can be decided without it")
    return Running(identifier, found.root)


def delete(path: str, places: Places, *, keep: Collection[int] = (), durable: bool = True) -> None:
    """Delete a subvolume and those in it, unless one is the running root, mounted anywhere, or to be kept: by id.

    Not ``durable``: after a power cut it may be there again.
    """
    found = btrfs.inspect(path)
    if found is None:  # guard: what is not a subvolume is not deleted
        raise NodeError(f"{path} is not a subvolume; it is left alone")
    above = nearest(os.path.realpath(path), parse_mountinfo(read_mountinfo()))
    if above is None or above.fstype != "btrfs":
        raise NodeError(f"{path} is not on a mounted btrfs; it is left alone")
    mounted = mounted_ids(above.source)
    inner = _inside(path)
    deepest_first = {**inner, path: found}
    for where, one in deepest_first.items():
        if one.id == running_root(places).id:  # guard: the running root is never deleted
            raise NodeError(f"{where} (id {one.id}) is the running root; it is never deleted")
        if one.id in mounted:  # guard: a mounted subvolume is never deleted
            raise NodeError(f"{where} (id {one.id}) is mounted on {mounted[one.id][0]}; it is not deleted")
        if one.id in keep:  # guard: a subvolume that is still needed is kept
            raise NodeError(f"{where} (id {one.id}) is still needed; it is not deleted")
    for where, one in {path: found, **inner}.items() if inner else ():
        if one.read_only:
            guard.set_read_only(where, False)  # nothing can be taken out of a read-only one
    btrfs.delete(list(deepest_first), durable=durable)


def _inside(path: str) -> dict[str, Subvolume]:
    """The subvolumes below a path, the deepest first."""
    paths = [os.path.join(path, one) for one in btrfs.nested(path)]
    found = {one: btrfs.inspect(one) for one in reversed(paths)}
    return {one: subvolume for one, subvolume in found.items() if subvolume is not None}

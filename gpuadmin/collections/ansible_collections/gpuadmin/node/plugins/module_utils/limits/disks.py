"""Bytes and free bytes of a host's disks."""

from __future__ import annotations

import os

from gpuadmin.common.records.hosts import Disk

from ..errors import NodeError
from ..mounts import NETWORK, Mount, nearest, parse_mountinfo, read_mountinfo
from . import room


def disk(path: str, mountinfo: str | None = None) -> Disk:
    """Bytes and free bytes of the file system that a path is or would be on, and where that is mounted.

    A file server may be away: what is on one is not asked. Raises NodeError.
    """
    mounts = parse_mountinfo(read_mountinfo() if mountinfo is None else mountinfo)
    mount = _local(path, mounts)  # before a link is followed, which may ask the file server that it is on
    real = os.path.realpath(path)
    if real != path:  # guard: a link that leads to a file server is not asked
        mount = _local(real, mounts)
    whole, free = room.space(real, mount.point)
    return Disk(path, mount.point, whole, free)


def _local(path: str, mounts: list[Mount]) -> Mount:
    mount = nearest(path, mounts)
    # guard: a disk's path is asked of no file server -> mount is None
    if mount is None or NETWORK.match(mount.fstype) or mount.fstype == "autofs":
        raise NodeError(f"{path} is on no disk of this host ({mount.fstype if mount else 'nothing is mounted there'})")
    return mount

"""Homes that are mounted from a host that serves them no more: who has files there, and letting them go.

Nothing here looks into such a mount: who asks a server that is away waits for ever. Links in /proc are the kernel's.
"""

from __future__ import annotations

import ctypes
import glob
import os
import re
import socket
from collections.abc import Sequence
from contextlib import suppress

from gpuadmin.common.records.hosts import FormerHomes

from ..cgroups import find_owner
from ..errors import NodeError
from ..files import read_bytes
from ..lookup import find_name
from ..mounts import parse_mountinfo, read_mountinfo
from ..open_files import read_target, read_targets

PORT, SECONDS = 2049, 5.0
_FORCE, _DETACH, _NOFOLLOW = 1, 2, 8  # umount(2)
_MOST = 20  # processes of a person's that are named
_LIBC = ctypes.CDLL(None, use_errno=True)


def answers(address: str) -> bool:
    """Whether something listens on the NFS port there."""
    with suppress(OSError):
        socket.create_connection((address, PORT), SECONDS).close()
        return True
    return False


def find_mounts(server: str, above: str, table: str) -> list[str]:
    """Given a server's address, a directory and mountinfo, return where something below it there is mounted, the
    innermost first."""
    source = f"{f'[{server}]' if ':' in server else server}:{above.rstrip('/')}/"
    found = [
        one.point
        for one in parse_mountinfo(table)
        if one.source.startswith(source)
        # guard: what a person mounts by FUSE, from wherever they say, is not taken for homes
        if not one.fstype.startswith("fuse") or "user_id=0" in one.options.split(",")
    ]
    return sorted(found, key=len, reverse=True)


def look(server: str, above: str) -> FormerHomes:
    """What this host has of that server's."""
    points = find_mounts(server, above, read_mountinfo())
    return FormerHomes(answers(server), points, find_holders(points))


def find_holders(points: Sequence[str], proc: str = "/proc") -> dict[str, list[str]]:
    """Name of a person → their processes that have files below these places, or stand there: `python3 (4711)`."""
    found: dict[str, list[str]] = {}
    inside = tuple(f"{one}/" for one in points)
    for path in glob.glob(f"{proc}/[0-9]*") if points else ():
        try:
            held = {read_target(f"{path}/cwd"), read_target(f"{path}/exe"), *read_targets(path)}
            if any(f"{one}/".startswith(inside) for one in held):
                pid, words = (
                    int(path.rpartition("/")[2]),
                    (read_bytes(f"{path}/comm") or b"?").decode("utf-8", "replace"),
                )
                if (uid := find_owner(pid, proc)) is not None:
                    found.setdefault(find_name(uid) or f"uid {uid}", []).append(f"{words.strip()} ({pid})")
        except OSError:
            continue  # it has ended meanwhile
    return {name: sorted(ones)[:_MOST] for name, ones in sorted(found.items())}


def let_go(server: str, above: str) -> None:
    """Unmount what comes from there; what waits for it gets an error. Raises NodeError where it may still serve."""
    table = read_mountinfo()
    points = find_mounts(server, above, table)
    if points and answers(server):  # guard: homes of a server that serves are not taken away
        raise NodeError(f"{server} still serves NFS: its homes stay mounted here")
    for point in points:
        device = re.search(rf"(?m)^\d+ \d+ (\d+:\d+) \S+ {re.escape(point)} .* - (?!autofs)", table)
        # from Linux 6.4 on whoever waits for that server, now or later, gets EIO; before that they can be killed
        with suppress(OSError), open(f"/sys/fs/nfs/{device and device.group(1)}/shutdown", "w") as stream:
            stream.write("1")
        if _LIBC.umount2(os.fsencode(point), _FORCE | _DETACH | _NOFOLLOW):
            raise NodeError(f"{point} is not unmounted: {os.strerror(ctypes.get_errno())}")

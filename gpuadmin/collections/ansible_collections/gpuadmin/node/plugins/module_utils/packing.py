"""Packing a tree into an archive that is read back, and then deleting of the tree what the archive has.

When packing began is kept as the archive's own time, so that a deletion that was cut can be ended by another run: what
was changed or came after it is in no archive, and stays.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time

from . import btrfs, mounts
from .descend import Entry, same_mount, walk
from .errors import NodeError
from .files import sync_directory, sync_filesystem
from .purge import Judge, Purged, purge


def suffix() -> str:
    """How the name of an archive ends on this host."""
    return "tar.zst" if shutil.which("zstd") else "tar.gz"


def archive_path(directory: str, name: str, uid: int, label: str = "") -> str:
    """Where an archive of somebody's files goes that is begun now, in a directory that is made for root alone."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return os.path.join(directory, f"{name}-{uid}-{stamp}{label}.{suffix()}")


def pack(path: str, target: str) -> None:
    """Pack ``path``, subvolumes in it included, into the file ``target``, which root alone can read.

    The archive is compared with the tree before it gets its name. Raises NodeError, and leaves nothing, otherwise.
    """
    if os.path.lexists(target):
        raise NodeError(f"{target} is there already; run this again")
    refuse_mounts(path)
    begun = time.time_ns()
    part = target + ".part"
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    try:
        for action in ("--create", "--compare"):
            _tar(action, part, target, path)
        listed = _tar("--list", part, target, path).splitlines()
        if len(listed) != _count(path):  # --compare does not see what the archive lacks
            raise NodeError(f"the archive does not hold all of {path} (is somebody still writing in it?): kept")
        os.utime(part, ns=(begun, begun))
        sync_filesystem(part)
    except BaseException:
        os.unlink(part)
        raise
    os.rename(part, target)
    sync_directory(os.path.dirname(target))


def refuse_mounts(path: str) -> None:
    inside = mounts.below(os.path.realpath(path), mounts.parse_mountinfo(mounts.read_mountinfo()))
    if inside:
        raise NodeError(f"{inside[0].point} is mounted inside of {path}: kept")


def _tar(action: str, archive: str, target: str, path: str) -> str:
    above, name = os.path.split(path)
    compress = {"zst": ("--zstd",), ".gz": ("--gzip",)}.get(target[-3:], ())
    what = ("--quoting-style=escape",) if action == "--list" else ("--acls", "--xattrs", f"--directory={above}")
    members = () if action == "--list" else (f"./{name}",)
    command = ("tar", action, *compress, "--numeric-owner", f"--file={archive}", *what, *members)
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                            check=False)  # fmt: skip
    if result.returncode != 0:
        said = (result.stderr or result.stdout).strip()[-300:]
        raise NodeError(
            f"the archive is not what is in {path} (is somebody still writing in it?): kept. "
            f"'{' '.join(command)}' ended with {result.returncode}: {said}"
        )
    return result.stdout


def _count(path: str) -> int:
    """How many entries an archive of it has: all, but for sockets, which tar leaves out."""
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        return 1
    handle = btrfs.open_directory(path)
    try:
        return 1 + sum(not stat.S_ISSOCK(entry.facts.st_mode) for entry in walk(handle, same_mount))
    finally:
        os.close(handle)


def delete(path: str, archive: str) -> Purged:
    """Delete what has not changed since it was packed into ``archive``. Cut, it goes on in the next call."""
    refuse_mounts(path)
    above, name = os.path.split(path)
    handle = btrfs.open_directory(above)
    try:
        return purge(handle, os.fsencode(name), _unchanged(os.stat(archive).st_mtime_ns))
    finally:
        sync_filesystem(above)
        os.close(handle)


def _unchanged(begun: int) -> Judge:
    linked: dict[tuple[int, int], tuple[int, int]] = {}

    def judge(entry: Entry) -> str | None:
        if entry.is_directory:
            return None  # what is in it decides
        facts = entry.facts
        inode, content = (facts.st_dev, facts.st_ino), (facts.st_size, facts.st_mtime_ns)
        if facts.st_ctime_ns < begun:
            if facts.st_nlink > 1:
                linked[inode] = content
            return None
        # the first of several hard links has gone, by which the others' ctime has changed
        return None if linked.get(inode) == content else "was changed after it was packed"

    return judge

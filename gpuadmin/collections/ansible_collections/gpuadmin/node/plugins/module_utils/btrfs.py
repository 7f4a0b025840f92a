"""What btrfs is asked: by ioctl what it says of subvolumes, by btrfs-progs what it is to do with them."""

from __future__ import annotations

import array
import errno
import fcntl
import os
import struct
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from . import inode_flags
from .btrfs_tree import FIRST_INODE, children
from .errors import NodeError
from .run import run

# In a snapshot a nested subvolume is an empty directory with this inode: BTRFS_EMPTY_SUBVOL_DIR_OBJECTID
PLACEHOLDER_INODE = 2
SUBVOLUME_INODE = FIRST_INODE  # of the root of every subvolume

# linux/btrfs.h and linux/fs.h
_GET_SUBVOL_INFO = 0x81F8943C
_SUBVOL_SETFLAGS = 0x4008941A
_SUBVOL_CREATE = 0x5000940E
_FS_INFO, _FS_GENERATION = 0x8400941F, 2
_INFO = struct.Struct("=Q256sQQQQ16s16s16s")
_READ_ONLY = 1
_SNAP_CREATE_V2, _SNAP_READ_ONLY = 0x50009417, 2


@dataclass(frozen=True)
class Subvolume:
    """A subvolume; uuids are lower-case text, empty if btrfs has none."""

    id: int
    read_only: bool
    uuid: str
    parent_uuid: str
    received_uuid: str


def _uuid(raw: bytes) -> str:
    return str(uuid.UUID(bytes=raw)) if any(raw) else ""


def _asked(handle: int, question: int, buffer: array.array[int]) -> bool:
    """Whether the file system of an open file knows this question; the answer is in the buffer then. Raises OSError."""
    try:
        fcntl.ioctl(handle, question, buffer, True)
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.EINVAL, errno.EOPNOTSUPP):
            return False
        raise
    return True


def read_subvolume(handle: int) -> Subvolume | None:
    """The subvolume that an open file or directory is in; None if that is not btrfs."""
    buffer = array.array("B", bytes(504))
    if not _asked(handle, _GET_SUBVOL_INFO, buffer):
        return None
    tree, _name, _parent, _directory, _generation, flags, own, parent, received = _INFO.unpack_from(buffer)
    return Subvolume(tree, bool(flags & _READ_ONLY), _uuid(own), _uuid(parent), _uuid(received))


def read_generation(handle: int) -> int | None:
    """The generation in which the subvolume of an open directory last changed, as far as it is on disk.

    None if that is not btrfs.
    """
    buffer = array.array("B", bytes(504))
    if not _asked(handle, _GET_SUBVOL_INFO, buffer):
        return None
    return int(_INFO.unpack_from(buffer)[4])


def newest_generation(handle: int) -> int | None:
    """The generation of a file system's newest transaction: what changes from now on is of this one, or a later one.

    None if that is not btrfs, or its kernel (before 5.10) does not say.
    """
    buffer = array.array("B", struct.pack("=48xQ", _FS_GENERATION) + bytes(1024 - 56))
    if not _asked(handle, _FS_INFO, buffer):
        return None
    flags, generation = struct.unpack_from("=48xQQ", buffer)
    return int(generation) if flags & _FS_GENERATION else None


def identity(handle: int, facts: os.stat_result) -> int:
    """By which an open directory is known again, whatever it is called: its inode, or the number of its subvolume.

    The root of every subvolume has the same inode.
    """
    found = read_subvolume(handle) if facts.st_ino == SUBVOLUME_INODE else None
    return facts.st_ino if found is None else found.id


def read_file_system_uuid(handle: int) -> str | None:
    """The UUID of the btrfs that an open file or directory is on; None if that is not btrfs."""
    buffer = array.array("B", bytes(1024))
    return _uuid(buffer.tobytes()[16:32]) if _asked(handle, _FS_INFO, buffer) else None


def open_directory(path: str | bytes, at: int | None = None) -> int:
    """Open a directory that is not reached through a symbolic link in its last part."""
    return os.open(
        path,
        os.O_RDONLY
        | os.O_DIRECTORY
        | os.O_NOFOLLOW  # guard: a directory is not opened through a link
        | os.O_CLOEXEC,
        dir_fd=at,
    )


def subvolume(path: str) -> Subvolume | None:
    handle = open_directory(path)
    try:
        return read_subvolume(handle)
    finally:
        os.close(handle)


def inspect(path: str) -> Subvolume | None:
    """The subvolume that ``path`` is the root of; None for whatever else it is, and for nothing."""
    try:
        handle = open_directory(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return read_subvolume(handle) if os.fstat(handle).st_ino == SUBVOLUME_INODE else None
    finally:
        os.close(handle)


def listing(directory: str) -> dict[str, Subvolume]:
    """The subvolumes directly in a directory, by name."""
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    found = {name: inspect(os.path.join(directory, name)) for name in names}
    return {name: one for name, one in found.items() if one is not None}


def holder(path: str) -> str:
    """The directory that is the root of the subvolume which ``path`` is in. Raises NodeError off btrfs."""
    here = path.rstrip("/") or "/"
    found = subvolume(here)
    if found is None:
        raise NodeError(f"{path} is not on btrfs: there are no snapshots of it")
    while os.lstat(here).st_ino != SUBVOLUME_INODE and here != "/":
        here = os.path.dirname(here)
    # a directory of a subvolume that is mounted by itself, or a file system in between, whose root has that inode too
    if inspect(here) != found:  # guard: a directory of a subvolume that is mounted by itself has no snapshots
        raise NodeError(f"{path}: the subvolume it is in is not mounted as a whole")
    return here


def nested(path: str | int, wanted: Callable[[str], bool] = lambda relative: True) -> Iterator[str]:
    """The subvolumes at any depth below the subvolume ``path`` (or an open one), relative to it, parents first.

    What is moved or deleted meanwhile is left out, and what is not ``wanted``, with all that is in it. However deep
    they are nested, none but the first is open while the next one is looked at.
    """
    top = os.dup(path) if isinstance(path, int) else open_directory(path)
    waiting = [""]
    try:
        while waiting:
            above = waiting.pop()
            inner = []
            for child in _list_child_subvolumes(above, top):
                relative = os.path.join(above, child)
                if wanted(relative) and _inode(relative, top) is not None:
                    yield relative
                    inner.append(relative)
            waiting += reversed(inner)
    finally:
        os.close(top)


def _list_child_subvolumes(path: str, at: int) -> list[str]:
    try:
        handle = open_deep(path, at)
    except (FileNotFoundError, NotADirectoryError):
        return []
    try:
        return sorted(children(handle)) if os.fstat(handle).st_ino == SUBVOLUME_INODE else []
    finally:
        os.close(handle)


def _inode(path: str | bytes, at: int) -> int | None:
    """The inode of a directory below an open one; None if there is none, or a link on the way."""
    try:
        handle = open_deep(path, at)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return os.fstat(handle).st_ino
    finally:
        os.close(handle)


def is_placeholder(path: str, at: int) -> bool:
    """Whether what is there is itself the empty directory that a snapshot has where a subvolume was.

    A snapshot of a subvolume that holds another one has such a directory.
    """
    return _inode(path, at) == PLACEHOLDER_INODE


def open_deep(path: str | bytes, at: int) -> int:
    """Open the directory at a path below an open one, however long the path is, and through no link."""
    handle = os.dup(at)
    for part in os.fsencode(path).split(b"/"):
        if part not in (b"", b"."):
            try:
                inner = open_directory(part, handle)
            finally:
                os.close(handle)
            handle = inner
    return handle


def create(path: str) -> None:
    """An empty subvolume, of mode 0777 less the umask."""
    if not try_create(path):
        raise NodeError(f"{path} is not on btrfs: there are no subvolumes")


def try_create(path: str) -> bool:
    """The same; False, and nothing made, where that is not btrfs."""
    above, name = os.path.split(path)
    handle = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _asked(handle, _SUBVOL_CREATE, array.array("B", struct.pack("=q4088s", 0, os.fsencode(name))))
    finally:
        os.close(handle)


def snapshot(source: int | str, target: str, *, read_only: bool = True) -> None:
    """A snapshot of a subvolume, open or at a path. What was written before is in it, on disk: btrfs commits.

    Raises NodeError if there is something at ``target``, or ``source`` is not a subvolume. It is asked of the kernel
    itself, since the path of a subvolume in a home can be longer than one may be named.
    """
    if isinstance(source, str):
        handle = open_directory(source)
        try:
            snapshot(handle, target, read_only=read_only)
        finally:
            os.close(handle)
        return
    if os.fstat(source).st_ino != SUBVOLUME_INODE:
        raise NodeError(f"no snapshot {target}: its source is a directory, not a subvolume (any more)")
    above, name = os.path.split(target)
    handle = open_directory(above)
    given = struct.pack("=QQQ32x4040s", source, 0, _SNAP_READ_ONLY if read_only else 0, os.fsencode(name))
    try:
        fcntl.ioctl(handle, _SNAP_CREATE_V2, array.array("B", given), True)
    except FileExistsError:
        raise NodeError(f"{target} exists already") from None
    finally:
        os.close(handle)


def delete(paths: Sequence[str], *, durable: bool = True) -> None:
    """Delete subvolumes; gone at once for everybody, freed by the kernel in the background.

    Not ``durable``: after a power cut they may be there again.
    """
    for path in paths:
        commit = (
            ("--commit-after",)
            if durable  # guard: a deletion is on the disk
            else ()
        )
        run(("btrfs", "subvolume", "delete", *commit, "--", path), what=f"{path} is not deleted")


def set_writable(handle: int) -> None:
    """Make the subvolume that ``handle`` is the root of writable, a received one too: it is about to be deleted."""
    fcntl.ioctl(handle, _SUBVOL_SETFLAGS, struct.pack("=Q", 0))


def set_read_only(handle: int) -> None:
    """Make the subvolume that ``handle`` is the root of read-only."""
    fcntl.ioctl(handle, _SUBVOL_SETFLAGS, struct.pack("=Q", _READ_ONLY << 1))


def make_movable(path: str, directory: int | None = None) -> None:
    """Take from a directory what keeps it from being renamed: chattr's flags, and being read-only."""
    handle = open_directory(path, directory)
    try:
        if read_subvolume(handle) is not None and os.fstat(handle).st_ino == SUBVOLUME_INODE:
            set_writable(handle)
        inode_flags.clear(handle)  # what is read-only keeps its flags
    finally:
        os.close(handle)

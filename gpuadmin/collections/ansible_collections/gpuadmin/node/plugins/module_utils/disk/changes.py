"""Which directories of a btrfs have changed since a generation: what has not is not measured again.

The tree of inodes is searched for what is newer (as `btrfs subvolume find-new` does), which reads only what is.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import struct

from ..btrfs import SUBVOLUME_INODE, read_generation

# linux/btrfs.h, linux/btrfs_tree.h
_TREE_SEARCH_V2 = 0xC0709411
_INO_LOOKUP = 0xD0009412
_INODE_ITEM = 1
_SIZE = 1 << 16  # bytes of one answer
_KEY = struct.Struct("=QQQQQQQIIII32xQ")
_HEADER = struct.Struct("=QQQII")
_LAST = (1 << 64) - 1
MOST = 200_000  # changed inodes to look at; with more, everything counts as changed


def changed(top: int, since: int) -> dict[bytes, int] | None:
    """By name in the subvolume whose root ``top`` is, the newest generation in which something below has changed.

    From ``since`` on, that generation included. None if that is unknown: not btrfs, not the root of a subvolume, more
    than MOST changes, a path that the kernel has no room for. A subvolume below is not looked into.
    """
    if os.fstat(top).st_ino != SUBVOLUME_INODE or read_generation(top) is None:
        return None
    found: dict[bytes, int] = {}
    count, first = 0, SUBVOLUME_INODE
    while True:
        answer, last = _search(top, first, since)
        if not last:
            return found
        first = last + 1
        for inode, generation, _names in answer:
            if generation < since:
                continue  # beside something that is newer, in the same leaf
            count += 1
            if count > MOST:
                return None  # guard: what is not known to be unchanged is not called so -> found
            try:
                name = _below(top, inode)
            except FileNotFoundError:
                if _is_in_place(top, inode):  # guard: a file whose names are in another form has changed
                    return None  # a file of very many names, in a form that is not looked up
                continue  # deleted: its directory has changed, too
            except OSError:
                return None
            if name:
                found[name] = max(found.get(name, 0), generation)


def _search(top: int, first: int, since: int) -> tuple[list[tuple[int, int, int]], int]:
    """Some inodes, the generations in which they were changed, and how many names they have; and the last one's number.

    That is 0 at the end. Between them come other items of theirs, which begin with the inode itself.
    """
    key = _KEY.pack(0, first, _LAST, 0, _LAST, since, _LAST, _INODE_ITEM, _INODE_ITEM, (1 << 32) - 1, 0, _SIZE)
    buffer = array.array("B", key + bytes(_SIZE))
    fcntl.ioctl(top, _TREE_SEARCH_V2, buffer, True)
    (count,) = struct.unpack_from("=I", buffer, 64)
    found, at, inode = [], _KEY.size, 0
    for _ in range(count):
        _leaf, inode, _offset, kind, length = _HEADER.unpack_from(buffer, at)
        if kind == _INODE_ITEM:
            # struct btrfs_inode_item: generation (of its making), transid (of its last change), 3 others, nlink
            generation, names = struct.unpack_from("=Q24xI", buffer, at + _HEADER.size + 8)
            found.append((inode, generation, names))
        at += _HEADER.size + length
    return found, inode


def _is_in_place(top: int, inode: int) -> bool:
    return any(found == inode and names for found, _generation, names in _search(top, inode, 0)[0][:1])


def _below(top: int, inode: int) -> bytes:
    """The first part of an inode's path; empty for the root itself."""
    if inode == SUBVOLUME_INODE:
        return b""
    buffer = array.array("B", struct.pack("=QQ", 0, inode) + bytes(4080))
    fcntl.ioctl(top, _INO_LOOKUP, buffer, True)
    path = buffer.tobytes()[16:].split(b"\0", 1)[0]
    if not path:
        raise OSError(errno.EIO, "an inode without a path")
    return path.split(b"/", 1)[0]

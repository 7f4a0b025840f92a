"""The subvolumes directly below a subvolume, as btrfs' own trees name them."""

from __future__ import annotations

import array
import errno
import fcntl
import os
import struct
from collections.abc import Iterator

# linux/btrfs.h
_GET_SUBVOL_ROOTREF = 0xD000943D
_INO_LOOKUP_USER = 0xD000943E
_TREE_SEARCH = 0xD0009411
# linux/btrfs_tree.h; the first is BTRFS_FIRST_FREE_OBJECTID, the root of every subvolume
FIRST_INODE = 256
_ROOT_TREE, _INODE_REF, _ROOT_BACKREF, _MOST = 1, 12, 144, (1 << 64) - 1


def children(handle: int) -> Iterator[str]:
    """Relative to the root of a subvolume, which is open; in no order. What is deleted meanwhile is left out."""
    smallest = 0
    while True:
        buffer = array.array("B", struct.pack("=Q", smallest) + bytes(4088))
        more = False
        try:
            fcntl.ioctl(handle, _GET_SUBVOL_ROOTREF, buffer, True)
        except OSError as error:
            if error.errno != errno.EOVERFLOW:
                raise
            more = True
        count = buffer[8 + 255 * 16]
        for number in range(count):
            tree, directory = struct.unpack_from("=QQ", buffer, 8 + 16 * number)
            try:
                yield os.fsdecode(_path(handle, tree, directory))
            except FileNotFoundError:
                continue  # deleted since it was counted
        if not more:
            return
        (smallest,) = struct.unpack_from("=Q", buffer, 0)


def _path(handle: int, tree: int, directory: int) -> bytes:
    buffer = array.array("B", struct.pack("=QQ", directory, tree) + bytes(4080))
    try:
        fcntl.ioctl(handle, _INO_LOOKUP_USER, buffer, True)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return _long_path(handle, tree, directory)
    raw = buffer.tobytes()
    name, above = raw[16:272].split(b"\0", 1)[0], raw[272:].split(b"\0", 1)[0]
    return above.rstrip(b"/") + b"/" + name if above.strip(b"/") else name


def _long_path(handle: int, tree: int, directory: int) -> bytes:
    """The same for a path that the kernel has no room for: the names that the trees hold, one by one, upwards."""
    (reference,) = _search(handle, _ROOT_TREE, (tree, _ROOT_BACKREF, 0), (tree, _ROOT_BACKREF, _MOST))[:1] or (b"",)
    if len(reference) < 18:
        raise FileNotFoundError(errno.ENOENT, "the subvolume is gone")
    parts = [reference[18 : 18 + struct.unpack_from("=H", reference, 16)[0]]]
    while directory != FIRST_INODE:
        found = _search(handle, 0, (directory, _INODE_REF, 0), (directory, _INODE_REF, _MOST), offsets=True)
        if not found:
            raise FileNotFoundError(errno.ENOENT, "a directory above the subvolume is gone")
        above, reference = struct.unpack_from("=Q", found[0])[0], found[0][8:]
        parts.append(reference[10 : 10 + struct.unpack_from("=H", reference, 8)[0]])
        directory = above
    return b"/".join(reversed(parts))


def _search(
    handle: int, tree: int, first: tuple[int, int, int], last: tuple[int, int, int], *, offsets: bool = False
) -> list[bytes]:
    """The first item of a tree between two keys (none, or one), with ``offsets`` behind its key's offset.

    ``tree``: 0 for the subvolume that ``handle`` is in. linux/btrfs.h: struct btrfs_ioctl_search_key, _header.
    """
    key = struct.pack("=QQQQQQQIIII32x", tree, first[0], last[0], first[2], last[2], 0, _MOST, first[1], last[1], 1, 0)
    buffer = array.array("B", key + bytes(4096 - len(key)))
    fcntl.ioctl(handle, _TREE_SEARCH, buffer, True)
    raw = buffer.tobytes()
    (count,) = struct.unpack_from("=I", raw, 64)
    if not count:
        return []
    _transid, _object, offset, _kind, length = struct.unpack_from("=QQQII", raw, 104)
    return [(struct.pack("=Q", offset) if offsets else b"") + raw[136 : 136 + length]]

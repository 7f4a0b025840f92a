"""Reading what is in a file, and nothing where it has a hole: its size is a number that its owner chose."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import os
import struct
from collections.abc import Iterator

from .budget import Budget

BLOCK = 4096
CHUNK = 1 << 20
#: Characters of a checksum (`Sum`): one of format 1 has one fewer, and may begin with an "e" as well.
LENGTH = 65
_ZERO = bytes(BLOCK)
_OLD_ZEROS = hashlib.sha256(bytes(CHUNK)).digest()
_FICLONE = 0x40049409  # linux/fs.h
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # linux/falloc.h
_FIEMAP, _FIEMAP_HEAD = 0xC020660B, struct.Struct("=QQLLLL")  # linux/fiemap.h
_FIEMAP_EXTENT = struct.Struct("=QQQ16xL12x")
_PIECE, _MAP = 20, 1 << 28  # bits of a piece's bytes; bytes of the map of pieces
_GETFLAGS, _SETFLAGS, _NOCOW = 0x80086601, 0x40086602, 0x00800000


def extents(handle: int, size: int) -> Iterator[tuple[int, int]]:
    """Where an open file has data, as (begin, end) in bytes: lseek(2). The system may call zeros data."""
    at = 0
    while at < size:
        try:
            begin = os.lseek(handle, at, os.SEEK_DATA)
            end = min(os.lseek(handle, begin, os.SEEK_HOLE), size)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        if begin >= size:
            return
        yield begin, end
        at = max(end, begin + 1)


def _read(handle: int, length: int, at: int) -> bytes:
    parts = []
    while length:
        part = os.pread(handle, length, at)
        if not part:
            raise OSError(errno.EIO, "a file became shorter while it was read")
        parts.append(part)
        at, length = at + len(part), length - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def pieces(handle: int, size: int, budget: Budget) -> Iterator[tuple[int, bytes]]:
    """What is in a file, as (offset, bytes) of blocks that are not all zero: whichever way the zeros are stored."""
    done = 0
    for begin, end in extents(handle, size):
        at = max(begin // BLOCK * BLOCK, done)
        done = max(done, min(-(-end // BLOCK) * BLOCK, size))
        while at < done:
            budget.check()
            chunk = _read(handle, min(CHUNK, done - at), at)
            yield from ((at + first, chunk[first:last]) for first, last in _runs(chunk))
            at += len(chunk)


def _runs(chunk: bytes) -> Iterator[tuple[int, int]]:
    """The blocks of a chunk that are not zero, those that follow each other as one (begin, end)."""
    begin = None
    for at in range(0, len(chunk), BLOCK):
        block = chunk[at : at + BLOCK]
        if block == _ZERO or (len(block) < BLOCK and block.count(0) == len(block)):
            if begin is not None:
                yield begin, at
            begin = None
        elif begin is None:
            begin = at
    if begin is not None:
        yield begin, len(chunk)


class Sum:
    """A checksum over (offset, length, checksum of the data) of all that is not zero, after an ``e``.

    The same whether zeros are written or are a hole, and however a file system divides what is between them.
    """

    def __init__(self) -> None:
        self._whole, self._run = hashlib.sha256(), hashlib.sha256()
        self._begin = self._end = 0

    def add(self, at: int, data: bytes) -> None:
        """The next piece of a file (`pieces`)."""
        if at != self._end:
            self._close()
            self._run, self._begin = hashlib.sha256(), at
        self._run.update(data)
        self._end = at + len(data)

    def _close(self) -> None:
        if self._end > self._begin:
            where = struct.pack("<QQ", self._begin, self._end - self._begin)
            self._whole.update(
                where  # guard: where data lies is part of the checksum
                + self._run.digest()
            )

    def value(self) -> str:
        """The checksum, when all pieces have been added."""
        self._close()
        return "e" + self._whole.hexdigest()


def digest(handle: int, size: int, budget: Budget) -> str:
    """The checksum of what is in an open file (`Sum`)."""
    found = Sum()
    for at, data in pieces(handle, size, budget):
        found.add(at, data)
    return found.value()


def old_digest(handle: int, size: int, budget: Budget) -> str:
    """The checksum that sets of format 1 have: over those of all blocks of a MiB, of holes, too."""
    whole, at = hashlib.sha256(), 0
    while at < size:
        try:
            data = os.lseek(handle, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            data = size
        for _ in range((min(data, size) - at) // CHUNK):
            if at & ((1 << 30) - 1) == 0:
                budget.check()
            whole.update(_OLD_ZEROS)
            at += CHUNK
        if at >= size:
            break
        budget.check()
        block = _read(handle, min(CHUNK, size - at), at)
        whole.update(hashlib.sha256(block).digest())
        at += len(block)
    return whole.hexdigest()


def same(one: int, other: int, size: int, budget: Budget) -> bool:
    """Whether two open files of that size hold the same."""
    return digest(one, size, budget) == digest(other, size, budget)


def changes(
    earlier: int, before: int, handle: int, size: int, budget: Budget
) -> Iterator[tuple[int, int, bytes | None]]:
    """What makes an earlier file of ``before`` bytes, cut or lengthened to ``size``, the one open as ``handle``.

    As (offset, length, bytes), in order; no bytes: a hole. Costs what the two hold, wherever in them it is.
    """
    at, length, run = 0, 0, b""
    for begin, data in _different(
        _blocks(pieces(earlier, min(before, size), budget)), _blocks(pieces(handle, size, budget))
    ):
        more = min(BLOCK, size - begin) if data is None else len(data)
        if length and (begin != at + length or bool(run) != (data is not None) or len(run) >= CHUNK):
            yield at, length, run or None
            length, run = 0, b""
        if not length:
            at = begin
        length, run = length + more, run + (data or b"")
    if length:
        yield at, length, run or None


def _blocks(found: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    for at, data in found:
        for first in range(0, len(data), BLOCK):
            yield at + first, data[first : first + BLOCK]


def _different(
    earlier: Iterator[tuple[int, bytes]], found: Iterator[tuple[int, bytes]]
) -> Iterator[tuple[int, bytes | None]]:
    one, other = next(earlier, None), next(found, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one[0] < other[0]):
            assert one is not None
            # guard: a hole is sent as one
            yield one[0], None
            one = next(earlier, None)
        elif one is None or other[0] < one[0]:
            yield other
            other = next(found, None)
        else:
            if one[1].ljust(BLOCK, b"\0") != other[1].ljust(BLOCK, b"\0"):
                yield other
            one, other = next(earlier, None), next(found, None)


class Held:
    """What files hold on the disk together: what they share counts once, in pieces of a MiB, and never less than so.

    Where the file system does not say where a file's data are (fiemap, on btrfs it does), nothing is counted as shared.
    """

    def __init__(self) -> None:
        self._seen = bytearray()
        self.bytes = 0
        self.asked = 0  # bytes of all files, each by itself

    def add(self, handle: int, size: int) -> None:
        """Count the data of an open file."""
        for begin, end in extents(handle, size):
            self.asked += end - begin
        for physical, length in _physical(handle):
            for piece in range(physical >> _PIECE, (physical + length - 1 >> _PIECE) + 1):
                self._count(piece)

    def _count(self, piece: int) -> None:
        place, bit = piece >> 3, 1 << (piece & 7)
        if place >= _MAP:
            self.bytes += 1 << _PIECE
            return
        if place >= len(self._seen):
            self._seen.extend(bytes(place + 1 - len(self._seen)))
        if not self._seen[place] & bit:
            self._seen[place] |= bit
            self.bytes += 1 << _PIECE


def _physical(handle: int) -> Iterator[tuple[int, int]]:
    """Where on the file system the data of an open file are, as (begin, length) in bytes: FS_IOC_FIEMAP."""
    at = 0
    while True:
        buffer = bytearray(_FIEMAP_HEAD.pack(at, (1 << 63) - 1 - at, 0, 0, 512, 0) + bytes(512 * _FIEMAP_EXTENT.size))
        try:
            fcntl.ioctl(handle, _FIEMAP, buffer, True)
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.ENOTTY):
                return
            raise
        count = _FIEMAP_HEAD.unpack_from(buffer)[3]
        for number in range(count):
            logical, physical, length, flags = _FIEMAP_EXTENT.unpack_from(
                buffer, _FIEMAP_HEAD.size + number * _FIEMAP_EXTENT.size
            )
            yield physical, length
            at = logical + length
            if flags & 1:  # FIEMAP_EXTENT_LAST
                return
        if count == 0:
            return


def punch(handle: int, at: int, length: int) -> None:
    """Make a hole in an open file, or zeros where its file system has no holes."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if libc.fallocate(handle, _PUNCH_HOLE | _KEEP_SIZE, at, length) == 0:
        return
    number = ctypes.get_errno()
    if number not in (errno.EOPNOTSUPP, errno.ENOSYS):
        raise OSError(number, os.strerror(number))
    for begin in range(at, at + length, CHUNK):
        os.pwrite(handle, bytes(min(CHUNK, at + length - begin)), begin)


def copy(source: int, target: int, size: int, budget: Budget) -> None:
    """Give the open and empty file ``target`` what is in ``source``: the same blocks where the file system can."""
    if not _clone(source, target):
        for at, data in pieces(source, size, budget):
            budget.write(len(data))
            written = 0
            while written < len(data):
                written += os.pwrite(target, data[written:], at + written)
    os.ftruncate(target, size)


def _clone(source: int, target: int) -> bool:
    """Share all blocks. A file without copy-on-write shares them only with another one of that kind."""
    for attempt in (1, 2):
        try:
            fcntl.ioctl(target, _FICLONE, source)
            return True
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EPERM):
                raise
            if error.errno != errno.EINVAL or attempt == 2 or not _without_cow(source, target):
                return False
    return False


def _without_cow(source: int, target: int) -> bool:
    try:
        flags = struct.unpack("=Q", fcntl.ioctl(source, _GETFLAGS, bytes(8)))[0]
        if not flags & _NOCOW:
            return False
        fcntl.ioctl(target, _SETFLAGS, struct.pack("=Q", _NOCOW))
    except OSError:
        return False
    return True

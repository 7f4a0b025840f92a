"""Copying what another host sends, without giving it more time or room than it may have."""

from __future__ import annotations

import os
import select
import time
from dataclasses import dataclass

from gpuadmin.common.text import size_words

from ..errors import NodeError
from ..files import sync_filesystem

BLOCK = 1 << 20
FULL = "would stay free"
_PART = 8  # of what is left, after which to look again: others write at the same time
_STEP = 1 << 18  # bytes after which it is soon enough


@dataclass(frozen=True)
class Bounds:
    """``idle``: seconds in which nothing moves; ``total``: seconds of a stream; ``reserve``: share that stays free.

    ``most``: bytes of a reserve; five in a hundred of a large disk would be a disk.
    """

    idle: float = 600.0
    total: float = 3 * 86400.0
    reserve: float = 0.05
    most: int = 16 << 30


BOUNDS = Bounds()


class NoRoom(NodeError):
    """What is free is a reserve."""


def check_room(path: str | int, bounds: Bounds = BOUNDS) -> int:
    """Return how many bytes are free beside the reserve: deleting on btrfs needs room as well. Raises NoRoom."""
    space, reserve = os.statvfs(path), read_free_reserve(path, bounds)
    spare = space.f_bavail * space.f_frsize - reserve
    if spare < 0:
        raise NoRoom(f"less than {size_words(reserve)} of the file system {FULL}")
    return spare


class Room:
    """The room of a file system that is being filled: looked at more often the less there is of it. Raises NoRoom."""

    def __init__(self, path: str | int, bounds: Bounds = BOUNDS) -> None:
        self._path, self._bounds = path, bounds
        self._left = check_room(path, bounds) // _PART

    def spend(self, size: int) -> None:
        """So many bytes are about to be written. Raises NoRoom, NodeError."""
        self._left -= size
        if self._left > 0:
            return
        # guard: what is on its way to the disk takes room, too
        sync_filesystem(self._path if isinstance(self._path, str) else f"/proc/{os.getpid()}/fd/{self._path}")
        self._left = max((check_room(self._path, self._bounds) - size) // _PART, _STEP)


def read_free_reserve(path: str | int, bounds: Bounds = BOUNDS) -> int:
    """How many bytes of its file system stay free."""
    space = os.statvfs(path)
    return int(min(space.f_blocks * space.f_frsize * bounds.reserve, bounds.most))


def copy_stream(source: int, sink: int, path: str, *, most: int | None = None, bounds: Bounds = BOUNDS) -> None:
    """Copy from one descriptor to another until the source ends, or until nobody reads the sink any more.

    ``path``: on the file system that is filled by it; ``most``: bytes. Raises NodeError when a bound is reached.
    """
    begun = moved = time.monotonic()
    room = Room(path, bounds)
    done, rest = 0, memoryview(b"")
    os.set_blocking(sink, False)
    poll = select.poll()
    while True:
        handle, event = (sink, select.POLLOUT) if rest else (source, select.POLLIN)
        poll.register(handle, event)
        ready = poll.poll(1000)
        poll.unregister(handle)
        now = time.monotonic()
        if ready:
            moved = now
            if rest:
                try:
                    rest = rest[os.write(sink, rest) :]
                except BlockingIOError:
                    pass
                except BrokenPipeError:
                    return  # the reader has ended; its status says why
            else:
                rest = memoryview(os.read(source, BLOCK))
                done += len(rest)
                if not rest:
                    return
                room.spend(len(rest))
        if now - moved > bounds.idle or now - begun > bounds.total:
            raise NodeError(f"the other host or this one stood still: ended after {now - begun:.0f} seconds")
        if most is not None and done > most:  # guard: the document of a set is bounded
            raise NodeError(f"it is longer than {most} bytes")

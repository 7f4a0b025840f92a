"""Records that only grow, a line at a time: the journal of a reset, the ledger of mails."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def append_synced(path: Path, line: str, *, whole: Callable[[bytes], bool] | None = None) -> None:
    """Append a line that is on the disk when this returns. A line that a crash left unfinished is cut off first.

    ``whole``: whether a last line without a line feed is complete, so that it stays; without it none is.
    """
    new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        # guard: a torn line of the ledger is cut off before the next -> b''
        tail = os.pread(descriptor, size, 0).rpartition(b"\n")[2]
        # guard: a torn line is cut off before the next -> tail and whole is not None and (not whole(tail))
        if tail and (whole is None or not whole(tail)):
            os.ftruncate(descriptor, size - len(tail))
            tail = b""
        content = (("\n" if tail else "") + line).encode()
        while content:
            content = content[os.write(descriptor, content) :]
        os.fsync(descriptor)  # guard: a ledger's line is on the disk
    finally:
        os.close(descriptor)
    if new:
        for directory in (path.parent, path.parent.parent):
            sync_directory(directory)


def sync_directory(path: Path) -> None:
    """Have the names in a directory on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Immutable and append-only: flags of an inode that stop even root, lifted and set again (ioctl_iflags(2))."""

from __future__ import annotations

import array
import errno
import fcntl
import os

_GET, _SET = 0x80086601, 0x40086602
IMMUTABLE, APPEND = 0x10, 0x20
STOPS = IMMUTABLE | APPEND


def read_inode_flags(handle: int) -> int:
    """The flags of an open file; 0 where the file system has none. Raises OSError."""
    buffer = array.array("L", [0])
    try:
        fcntl.ioctl(handle, _GET, buffer, True)
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL):
            return 0
        raise
    return buffer[0] & 0xFFFFFFFF


def set_flags(handle: int, value: int) -> None:
    """Give an open file these flags. Raises OSError."""
    fcntl.ioctl(handle, _SET, array.array("L", [value]))


def clear(handle: int) -> None:
    """Take chattr's +i and +a from an open file or directory. Raises OSError."""
    found = read_inode_flags(handle)
    if found & STOPS:
        set_flags(handle, found & ~STOPS)


def opened(path: str) -> int:
    """A file, opened to ask for its flags: a pipe or a device is not waited for."""
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)

"""Renaming in one step: to a name that must be free, or two things for each other."""

from __future__ import annotations

import ctypes
import errno
import os

from .errors import NodeError

_NOREPLACE, _EXCHANGE = 1, 2  # linux/fs.h: RENAME_NOREPLACE, RENAME_EXCHANGE
_HERE = -100  # AT_FDCWD; the paths that follow are absolute


def rename_new(name: str, at: int, target: str, to: int) -> None:
    """Rename ``name`` in the open directory ``at`` to ``target`` in the open directory ``to``.

    Raises NodeError if something has that name, or where the file system cannot tell in the same step.
    """
    number = _rename(
        at,
        name,
        to,
        target,
        _NOREPLACE,  # guard: what is restored to replaces nothing -> 0
    )
    if number == 0:
        return
    if number == errno.EEXIST:
        raise NodeError(f"{target} has just appeared; nothing was replaced")
    if number == errno.EINVAL:
        raise NodeError(f"{target}: this file system cannot rename without replacing (renameat2): nothing was renamed")
    raise OSError(number, os.strerror(number), target)


def exchange(one: str, other: str) -> None:
    """Give each of two paths the other's name. Raises OSError, also where the file system has no such step."""
    number = _rename(_HERE, one, _HERE, other, _EXCHANGE)
    if number != 0:
        raise OSError(number, os.strerror(number), other)


def _rename(at: int, name: str, to: int, target: str, flags: int) -> int:
    """renameat2(2), which Python has no call for. Returns errno, 0 where it was done."""
    library = ctypes.CDLL(None, use_errno=True)
    done = library.renameat2(at, os.fsencode(name), to, os.fsencode(target), flags)
    return 0 if done == 0 else ctypes.get_errno()

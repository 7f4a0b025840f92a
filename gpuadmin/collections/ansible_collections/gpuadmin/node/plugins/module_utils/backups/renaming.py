"""Giving something a name that must be free, in one step: nobody can take it in between."""

from __future__ import annotations

import ctypes
import errno
import os

from ..errors import NodeError

_NOREPLACE = 1  # linux/fs.h: RENAME_NOREPLACE


def rename_new(name: str, at: int, target: str, to: int) -> None:
    """Rename ``name`` in the open directory ``at`` to ``target`` in the open directory ``to``.

    Raises NodeError where something has that name, or where the file system cannot tell in the same step.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if library.renameat2(at, os.fsencode(name), to, os.fsencode(target), _NOREPLACE) == 0:
        return
    number = ctypes.get_errno()
    if number == errno.EEXIST:
        raise NodeError(f"{target} has just appeared; nothing was replaced")
    if number == errno.EINVAL:
        raise NodeError(f"{target}: this file system cannot rename without replacing (renameat2); restore to another")
    raise OSError(number, os.strerror(number), target)

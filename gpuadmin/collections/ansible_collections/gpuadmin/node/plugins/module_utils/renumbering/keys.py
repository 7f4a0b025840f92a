"""Keys that the kernel keeps for a uid without any process: Kerberos tickets, say. They are let go, as at a reboot."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterable

from ..detached import forked
from ..errors import NodeError
from .journal import Journal

_KEYCTL = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine)
_CLEAR, _GET_PERSISTENT = 7, 22  # linux/keyctl.h
_PROCESS, _USER, _USER_SESSION = -2, -4, -5
#: The kernel has none, or lets nobody have any here.
_NONE = (errno.ENOSYS, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP)


def owners(text: str) -> list[int]:
    """Who has keys, by /proc/key-users (keyrings(7))."""
    return [int(line.split(":", 1)[0]) for line in text.splitlines() if line.strip()]


def let_go(found: Journal, proc: str = "/proc") -> list[int]:
    """Empty the keyrings of whoever has one of the ids now or gets it. Returns whose there were. Raises NodeError."""
    try:
        with open(f"{proc}/key-users", encoding="ascii") as stream:
            there = owners(stream.read())
    except FileNotFoundError:
        return []  # a kernel without
    ids = [range(first, first + one.count) for one in found.moves("uid") for first in (one.old, one.new)]
    mine = [uid for uid in there if any(uid in several for several in ids)]
    _empty(mine)  # guard: keys of a uid are not another's after a renumbering
    return mine


def _empty(uids: Iterable[int]) -> None:
    """Only who has a uid may say which keyrings are theirs: a process becomes each of them for a moment."""
    for uid in uids:
        child = forked()
        if child == 0:
            status = 1
            try:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                status = _emptied(uid)
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            raise NodeError(f"keys of uid {uid} in the kernel stay: {os.strerror(status)}; reboot, then run it again")


def _emptied(uid: int) -> int:
    """The error with which emptying this process's own keyrings ends, or 0."""
    if _KEYCTL is None:
        return errno.ENOSYS
    done = [_keyctl(_CLEAR, _USER), _keyctl(_CLEAR, _USER_SESSION)]
    persistent = _keyctl(_GET_PERSISTENT, uid, _PROCESS)  # keeps them for days (persistent-keyring(7))
    done.append(persistent if persistent < 0 else _keyctl(_CLEAR, persistent))
    return next((-one for one in done if one < 0 and -one not in _NONE), 0)


def _keyctl(*arguments: int) -> int:
    """keyctl(2): what it returns, or minus the error."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    done = int(libc.syscall(ctypes.c_long(_KEYCTL or 0), *map(ctypes.c_long, arguments)))
    return done if done >= 0 else -ctypes.get_errno()

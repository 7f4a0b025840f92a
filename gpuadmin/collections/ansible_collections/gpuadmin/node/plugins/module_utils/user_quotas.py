"""What a uid, or a project, has on a file system, and may have there: quotas of ext4 and xfs, by quotactl(2)."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass

#: File systems whose quotas of users are meant here; others answer in their own way, or not at all.
KINDS = ("ext4", "xfs")

# linux/quota.h and linux/dqblk_xfs.h: commands are shifted by 8, beside the kind of quota
_GET, _SET, _NEXT, _STATE = 0x800007 << 8, 0x800008 << 8, 0x800009 << 8, 0x5805 << 8
_BLOCK = 1024  # bytes of a limit's unit (QIF_DQBLKSIZE)
#: xfs rounds a limit up to its own blocks, which have at most so many bytes.
_ROUND = 65536
_LIMITS = 1  # QIF_BLIMITS: of what is set, only the limits of room
USERS, PROJECTS = 0, 2
_COUNTED, _ENFORCED = 1, 2  # FS_QUOTA_UDQ_ACCT, FS_QUOTA_UDQ_ENFD; for each further kind two bits higher
#: What the call says where there are no such quotas, or the kernel has none.
_NONE = (errno.ESRCH, errno.ENOSYS, errno.EINVAL, errno.ENOTBLK, errno.EOPNOTSUPP)


class _Quota(ctypes.Structure):  # struct if_dqblk
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("hard", "soft", "space", "inodes_hard", "inodes_soft", "inodes", "space_time", "inodes_time")
    ] + [("valid", ctypes.c_uint32)]


class _Next(ctypes.Structure):  # struct if_nextdqblk
    _fields_ = [*_Quota._fields_, ("id", ctypes.c_uint32)]


@dataclass(frozen=True)
class Quota:
    """Bytes that a uid has, and may have; None: as much as there is."""

    used: int
    most: int | None


def rounded(most: int) -> int:
    """What a limit of so many bytes is, on each of these file systems."""
    return -(-most // _ROUND) * _ROUND


class UserQuotas:
    """Quotas of one file system. ``device``: what it is on, as mountinfo names it. ``kind``: USERS or PROJECTS."""

    def __init__(self, device: str, kind: int = USERS) -> None:
        self._device, self._kind = device, kind
        self._call = ctypes.CDLL(None, use_errno=True).quotactl

    def enforced(self) -> bool:
        """Whether the kernel counts what users have, and refuses more. Raises OSError."""
        state = ctypes.create_string_buffer(256)  # struct fs_quota_stat: its version, then 16 bits of flags
        if not self._ask(_STATE, 0, state):
            return False
        flags = int.from_bytes(state.raw[2:4], "little") >> 2 * self._kind
        # guard: quotas that are only counted hold nobody to them -> bool(flags)
        return flags & (_COUNTED | _ENFORCED) == _COUNTED | _ENFORCED

    def of(self, uid: int) -> Quota:
        """What this uid has and may have; nothing yet is 0 of as much as there is. Raises OSError."""
        found = _Quota()
        self._ask(_GET, uid, found)
        return Quota(found.space, found.hard * _BLOCK or None)

    def users(self) -> Iterator[int]:
        """The uids that have something on the file system; none where it has no quotas. Raises OSError."""
        found, uid = _Next(), 0
        try:
            while uid < 2**32 - 1 and self._ask(_NEXT, uid, found):
                if found.inodes:
                    yield found.id
                uid = found.id + 1
        except FileNotFoundError:  # there is none after it
            return

    def limit(self, uid: int, most: int | None) -> None:
        """Let a uid have so many bytes, ``rounded``; None: as much as there is. Raises OSError."""
        blocks = 0 if most is None else rounded(most) // _BLOCK
        if not self._ask(_SET, uid, _Quota(hard=blocks, soft=0, valid=_LIMITS)):
            raise OSError(errno.ESRCH, os.strerror(errno.ESRCH), self._device)

    def _ask(self, command: int, uid: int, data: ctypes.Structure | ctypes.Array[ctypes.c_char]) -> bool:
        if self._call(command | self._kind, os.fsencode(self._device), uid, ctypes.byref(data)) == 0:
            return True
        number = ctypes.get_errno()
        if number in _NONE:
            return False
        raise OSError(number, os.strerror(number), self._device)

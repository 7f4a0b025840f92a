"""Where a process's open files are listed: of its first thread, which may have ended, and of each that has its own."""

from __future__ import annotations

import ctypes
import glob
import os

_KCMP = {"x86_64": 312, "aarch64": 272}.get(os.uname().machine)
_FILES = 2  # kcmp(2): KCMP_FILES
_LIBC = ctypes.CDLL(None)


def places(process: str) -> list[str]:
    """Given /proc/PID, return the directories of /proc whose ``fd`` and ``fdinfo`` have its open files.

    Of a first thread that has ended the kernel lists nothing, nor mounts, though all others hold what they held. And
    any thread may have files of its own: unshare(CLONE_FILES) needs no privilege. Raises OSError for a process that is
    gone, or may not be looked at.
    """
    with os.scandir(f"{process}/fd") as files:
        if next(files, None) is None:
            # guard: who ended their first thread alone still holds what the others have open -> []
            return [f"{process}/task/{thread}" for thread in os.listdir(f"{process}/task")]
    try:
        alone = os.stat(f"{process}/task").st_nlink <= 3  # of a directory: two, and one for each in it
        first = os.path.basename(process)
        threads = [] if alone else os.listdir(f"{process}/task")
    except OSError:
        return [process]  # it is ending
    # guard: what a thread has opened in files of its own is held as well -> [process]
    return [process, *(f"{process}/task/{thread}" for thread in threads if _has_its_own(int(first), int(thread)))]


def read_targets(process: str) -> set[str]:
    """Given /proc/PID, return what its open files are; of one that was closed meanwhile nothing. Raises OSError, as
    above."""
    return {read_target(one) for place in places(process) for one in glob.iglob(f"{place}/fd/*")}


def read_target(link: str) -> str:
    """What a link of /proc leads to, which is not followed: its server may be away. Empty where it is gone."""
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _has_its_own(first: int, thread: int) -> bool:
    """Whether a thread has other files than the first one; False where the kernel does not say, or it has ended."""
    return _KCMP is not None and int(_LIBC.syscall(_KCMP, first, thread, _FILES, 0, 0)) > 0

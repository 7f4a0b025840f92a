"""Running a program on what a hostile host sends, where one directory is writable and little else is there.

A mount namespace of its own: the programs and libraries of this host, one btrfs subvolume, both read-only, and in the
subvolume one directory that is writable. A link that leads out of it leads nowhere, or to what cannot be written.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

from ..btrfs import SUBVOLUME_INODE
from ..errors import NodeError
from ..paths import RUN

ROOT = f"{RUN}/confined"  # where the tree is put together; outside of the namespace it stays an empty directory
TOP = "/top"  # where the subvolume is in it
_PROGRAMS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")

# linux/sched.h, linux/mount.h, linux/prctl.h
_NEW_NAMESPACES = 0x00020000 | 0x08000000 | 0x40000000  # mounts, System V IPC, network
_READ_ONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_DETACH = 2
_DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 1, 38


@dataclass(frozen=True)
class View:
    """``top``: the root of a btrfs subvolume, seen read-only. ``writable``: a directory in it, by its absolute path.

    The plain directories inside of ``writable`` are read-only.
    """

    top: str
    writable: str

    @property
    def inside(self) -> str:
        """The writable directory, as the program sees it."""
        return os.path.normpath(os.path.join(TOP, os.path.relpath(self.writable, self.top)))


def _checked(call: Callable[..., int], *arguments: object) -> None:
    if call(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call.__name__}: {os.strerror(number)}")


def _mount(libc: ctypes.CDLL, source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    first, third = (None if one is None else os.fsencode(one) for one in (source, kind))
    _checked(libc.mount, first, os.fsencode(target), third, ctypes.c_ulong(flags), data.encode() or None)


def _bind(libc: ctypes.CDLL, source: str, target: str, flags: int) -> None:
    """Show a directory a second time; what is mounted below it is left out."""
    _mount(libc, source, target, None, _BIND)
    _mount(libc, None, target, None, _REMOUNT | _BIND | flags)


def _programs(libc: ctypes.CDLL) -> None:
    for name in _PROGRAMS:
        here, there = f"/{name}", f"{ROOT}/{name}"
        if os.path.islink(here):
            os.symlink(os.readlink(here), there)
        elif os.path.isdir(here):
            os.mkdir(there)
            _bind(libc, here, there, _READ_ONLY | _NOSUID | _NODEV)


def _subvolume(libc: ctypes.CDLL, view: View) -> None:
    data = _NOSUID | _NODEV | _NOEXEC
    os.mkdir(ROOT + TOP)
    _bind(libc, view.top, ROOT + TOP, _READ_ONLY | data)
    _bind(libc, view.writable, ROOT + view.inside, data)
    for name in sorted(os.listdir(view.writable)):
        facts = os.lstat(f"{view.writable}/{name}")
        if stat.S_ISDIR(facts.st_mode) and facts.st_ino != SUBVOLUME_INODE:
            _bind(libc, f"{view.writable}/{name}", f"{ROOT}{view.inside}/{name}", _READ_ONLY | data)


def enter(view: View) -> None:
    """Put the calling process into it, for good. Raises OSError, and then the process must end."""
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.prctl, _DEATH_SIGNAL, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    _checked(libc.unshare, _NEW_NAMESPACES)
    _mount(libc, None, "/", None, _RECURSIVE | _PRIVATE)
    _mount(libc, "tmpfs", ROOT, "tmpfs", _NOSUID | _NODEV | _NOEXEC, "mode=0700,size=1m,nr_inodes=64")
    _programs(libc)
    _subvolume(libc, view)
    os.chdir(ROOT)
    _checked(libc.pivot_root, b".", b".")  # pivot_root(2): the old root is then on top of the new one
    _checked(libc.umount2, b".", _DETACH)
    os.chdir("/")
    _mount(libc, None, "/", None, _REMOUNT | _BIND | _READ_ONLY | _NOSUID | _NODEV | _NOEXEC)
    _checked(libc.prctl, _NO_NEW_PRIVILEGES, ctypes.c_ulong(1), 0, 0, 0)


def start(view: View, command: Sequence[str], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a program of this host in there; its standard input is a pipe.

    The caller waits for it or kills it; it does not outlive the caller. Raises NodeError where it cannot be confined.
    """
    program = shutil.which(command[0])
    if program is None:
        raise NodeError(f"{command[0]} is not installed")
    os.makedirs(ROOT, mode=0o755, exist_ok=True)
    if not stat.S_ISDIR(os.lstat(ROOT).st_mode):
        raise NodeError(f"{ROOT} is not a directory")

    def confine() -> None:
        try:
            enter(view)
        except BaseException as error:  # nothing may run outside; the parent sees the words and the status
            os.write(2, f"it cannot be confined: {error}".encode())
            os._exit(125)

    return subprocess.Popen(
        (os.path.realpath(program), *command[1:]), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors,
        preexec_fn=confine,  # noqa: PLW1509  # no thread of this code runs while it forks
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
    )  # fmt: skip

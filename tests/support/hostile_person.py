#!/usr/bin/env python3
"""A hostile person: does at random what an ordinary account can do to the programs that root runs over its files.

Stands alone: Python 3.9 or newer and nothing else, so that it can be copied to a node and run there by anybody who has
an account. It never runs as root. Each trick is a function of TRICKS; one that this machine does not allow is skipped.
All of them come once, in the order of the seed, and then at random. It is bounded: by time, by bytes, by processes; at
its end nothing that it started is left, unless it is told to linger.

Prints the seed, then how often each trick was done and why the others were not. ``--loot FILE``: a line for each file
in which it could read ``--token`` although nobody gave it that: what a neighbour or root keeps to themselves.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import random
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
RENAME_EXCHANGE = 2
AT_FDCWD = -100
# linux/btrfs.h
SUBVOL_CREATE, SNAP_CREATE_V2, SUBVOL_SETFLAGS = 0x5000940E, 0x50009417, 0x4008941A
GETFLAGS, SETFLAGS = 0x80086601, 0x40086602
HUGE = (1 << 63) - 1  # the largest size that a file can have
ESCAPES = ["\x1b]0;owned\x07", "\x1b[2J\x1b[1;1H", "[/a]", "[red]root[/red]", "root", "sshd: root@pts/0", "a\nb",
           "{{ 1 }}", "\u202egnp.exe", "(sd-pam)", ") R 1 1", "--", "\r0 errors"]  # fmt: skip
NAMES = [b"new\nline", b"--", b"-rf", b"-rf *", b"[/a]", b"[bold]x", b"\x1b[31mred", b"\xff\xfe not utf-8", b" ", b"~",
         b"$(reboot)", b"`id`", b"{{ lookup('pipe', 'id') }}", b"...", b"a\tb", b"\\", b"'", b'"', b"*", b"?", b"#x#",
         b".gpuadmin-wiping", b".gpuadmin-restoring", b".thesis.gpuadmin-new", b"backup.json", b"\xe2\x80\xaetxt.exe",
         b"n" * 255, b"\xc3" * 255]  # fmt: skip


class Refused(Exception):
    """This machine does not let it."""


def checked(result: int) -> int:
    """Raise OSError if a call of libc has failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def exchange(one: str, other: str) -> None:
    checked(LIBC.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE))


def mount(what: str, where: str, kind: str | None, flags: int, options: str | None = None) -> None:
    parts = [None if part is None else os.fsencode(part) for part in (what, where, kind)]
    checked(LIBC.mount(*parts, ctypes.c_ulong(flags), None if options is None else os.fsencode(options)))


class Me:
    """Who does it, with what, within which bounds. One for each worker."""

    def __init__(self, given: argparse.Namespace, number: int) -> None:
        self.given = given
        self.number = number
        self.random = random.Random(given.seed * 1000 + number)
        self.home: str = given.home
        self.places: list[str] = [given.home, *given.scratch]
        self.neighbours: list[str] = given.neighbour
        self.end = time.monotonic() + given.seconds
        self.held: deque[Any] = deque()
        self.children: deque[int] = deque()

    def hold(self, thing: Any) -> Any:
        """Keep something open; of more than some tens the first is let go."""
        self.held.append(thing)
        if len(self.held) > 40:
            let_go(self.held.popleft())
        return thing

    def place(self, name: str, at: str | None = None) -> str:
        """A directory for a trick; what the last time left is sometimes kept."""
        path = os.path.join(at or self.random.choice(self.places), f"w{self.number}-{name}")
        if self.random.random() < 0.5:
            remove(path)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
        return path

    def file(self, name: str, size: int = 4096, at: str | None = None) -> str:
        path = os.path.join(self.place(name, at), f"f{self.random.randrange(4)}")
        with open(path, "wb") as stream:
            stream.write(self.random.getrandbits(8 * size).to_bytes(size, "little"))
        return path

    def target(self) -> str:
        """Where a link may lead: out of what is this person's."""
        return self.random.choice(
            [self.given.elsewhere, *self.neighbours, self.home, ".", "..", "/", "/proc/self/root"]
        )

    def child(self, work: Callable[[], None]) -> None:
        """Have something done by a process beside this one; of too many the first is killed."""
        while self.children and os.waitpid(self.children[0], os.WNOHANG)[0]:
            self.children.popleft()
        if len(self.children) >= self.given.processes:
            oldest = self.children.popleft()
            os.kill(oldest, signal.SIGKILL)
            os.waitpid(oldest, 0)
        pid = os.fork()
        if pid:
            self.children.append(pid)
            return
        try:
            signal.alarm(0)
            if not self.given.linger:
                LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)

    def spin(self, seconds: float = 0.15) -> Any:
        """Numbers, until the time of one trick is over."""
        end, count = min(time.monotonic() + seconds, self.end), 0
        while time.monotonic() < end:
            yield count
            count += 1

    def tool(self, *command: str, text: str = "") -> None:
        """Run a program, if there is one; it must succeed, and soon."""
        if shutil.which(command[0]) is None:
            raise Refused(f"no {command[0]}")
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=20, check=False)
        if done.returncode:
            raise Refused(f"{command[0]}: {done.stderr.decode(errors='replace').strip()[-80:]}")


def let_go(thing: Any) -> None:
    with contextlib.suppress(Exception):
        os.close(thing) if isinstance(thing, int) else thing.close()


def remove(path: str) -> None:
    if os.path.islink(path) or not os.path.isdir(path):
        with contextlib.suppress(OSError):
            os.unlink(path)
    else:
        with contextlib.suppress(OSError):
            os.chmod(path, 0o700)
        shutil.rmtree(path, ignore_errors=True)


# directories that become links and back


def _fill(path: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
    for number in range(5):
        with open(os.path.join(path, f"f{number}"), "wb") as stream:
            stream.write(b"x" * 100)


def link_and_back(me: Me) -> None:
    place = me.place("links")
    path, aside, target = os.path.join(place, "dir"), os.path.join(place, "aside"), me.target()
    if os.path.islink(path):
        os.unlink(path)
    if not os.path.isdir(aside):
        _fill(path)
    for _ in me.spin():
        if os.path.isdir(path) and not os.path.islink(path):
            os.rename(path, aside)
        os.symlink(target, path)
        os.unlink(path)
        os.rename(aside, path)


def exchanged(me: Me) -> None:
    place = me.place("exchange")
    path, link = os.path.join(place, "dir"), os.path.join(place, "link")
    if not os.path.lexists(path):
        _fill(path)
    if not os.path.lexists(link):
        os.symlink(me.target(), link)
    for _ in me.spin():
        exchange(path, link)


def top_exchanged(me: Me) -> None:
    """At the top of a place that root lists: a directory of this person's, and a link."""
    top = me.random.choice(me.places)
    path, link = (os.path.join(top, f"w{me.number}-top-{kind}") for kind in ("dir", "link"))
    if not os.path.lexists(path):
        _fill(path)
    if not os.path.lexists(link):
        os.symlink(me.target(), link)
    for _ in me.spin(0.3):
        exchange(path, link)


def moved_up_and_down(me: Me) -> None:
    """What was below is beside: the way up leads elsewhere than the way down came from."""
    place = me.place("moving")
    inner, beside = os.path.join(place, "a", "b", "c"), os.path.join(place, "c")
    if not os.path.lexists(beside):
        os.makedirs(inner, exist_ok=True)
        _fill(inner)
    for _ in me.spin():
        for one, other in ((inner, beside), (beside, inner)):
            with contextlib.suppress(OSError):
                os.rename(one, other)


def vanishing(me: Me) -> None:
    top = me.random.choice(me.places)
    for number in me.spin(0.3):
        path = os.path.join(top, f"w{me.number}-gone-{number % 50}")
        if number % 3:
            with open(path, "wb") as stream:
                stream.write(b"x")
            os.unlink(path)
        else:
            os.mkdir(path)
            os.rmdir(path)


def ambush(me: Me) -> None:
    """Wait for what root makes where this person may write, and put a link in its place."""
    known = set(os.listdir(me.home))
    for _ in me.spin(0.5):
        for top in me.places:
            for name in os.listdir(top):
                wanted = ".before-" in name or ".restored-" in name or "gpuadmin" in name
                path = os.path.join(top, name)
                if not wanted or name in known or "~" in name or os.path.islink(path):
                    continue
                with contextlib.suppress(OSError):
                    os.rename(path, f"{path}~{me.number}")
                    os.symlink(me.target(), path)


def guessed_names(me: Me) -> None:
    """Links under names that root's programs might make up."""
    for top in me.places:
        for name in (".gpuadmin-part", ".thesis.gpuadmin-part", "tmp", ".gpuadmin-new", "f0.before-20261221T010203Z"):
            with contextlib.suppress(FileExistsError):
                os.symlink(os.path.join(me.given.elsewhere, "shadow"), os.path.join(top, name))


# sizes, names, depth


def sparse(me: Me) -> None:
    path = os.path.join(me.place("sparse"), f"s{me.random.randrange(3)}")
    with open(path, "wb") as stream:
        size = me.random.choice([HUGE, 7 << 60, 1 << 44, 1 << 40])
        try:
            stream.truncate(size)
        except OSError as error:  # ext4 knows none of more than 16 TiB
            if error.errno not in (errno.EFBIG, errno.EINVAL):
                raise
            size = 1 << 43
            stream.truncate(size)
        for at in (0, size // 3, size - 5000):
            if me.random.random() < 0.5:
                stream.seek(max(at, 0))
                stream.write(b"data in a desert")
    with contextlib.suppress(OSError):
        os.link(path, path + "-too")


def deep(me: Me) -> None:
    """A path of many times 4096 bytes."""
    here = os.open(me.place("deep"), os.O_RDONLY | os.O_DIRECTORY)
    try:
        name = me.random.choice(["d", "x" * 200, "y" * 255])
        for _ in range(me.random.randrange(30, 150)):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=here)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = inner
        with os.fdopen(os.open("bottom", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=here), "wb") as stream:
            stream.write(b"deep down")
        os.symlink("/" + "l" * 4000, "link", dir_fd=here)
    finally:
        os.close(here)


def crowd(me: Me) -> None:
    place = me.place("crowd")
    for number in range(me.random.randrange(200, 2000)):
        os.close(os.open(os.path.join(place, f"{number:0200}"), os.O_WRONLY | os.O_CREAT, 0o600))
        if not number % 100 and time.monotonic() > me.end:
            return


def odd_names(me: Me) -> None:
    place = os.fsencode(me.place("names"))
    for name in me.random.sample(NAMES, 12):
        path = os.path.join(place, name)
        kind = me.random.randrange(4)
        with contextlib.suppress(FileExistsError, IsADirectoryError):
            if kind == 0:
                os.mkdir(path)
            elif kind == 1:
                os.symlink(me.random.choice(NAMES), path)
            else:
                with open(path, "wb") as stream:
                    stream.write(name)


def odd_names_on_top(me: Me) -> None:
    """The same where root lists and reports each entry."""
    for top in me.places:
        for name in me.random.sample(NAMES, 3):
            with contextlib.suppress(OSError):
                os.mkdir(os.path.join(os.fsencode(top), name))


def filled(me: Me) -> None:
    """All bytes that it may take, or as many as there are; then free again."""
    path = os.path.join(me.place("full"), "full")
    left = me.given.bytes // max(me.given.workers, 1)
    try:
        with open(path, "wb", buffering=0) as stream:
            while left > 0 and time.monotonic() < me.end:
                left -= stream.write(me.random.getrandbits(8 << 18).to_bytes(1 << 18, "little"))
            os.fsync(stream.fileno())
    finally:
        os.unlink(path)


# what is held


def leases(me: Me) -> None:
    """Whoever opens such a file waits for this process to give it up, which it does not."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    for kind in (fcntl.F_WRLCK, fcntl.F_RDLCK):
        path = me.file("lease")
        handle = me.hold(os.open(path, os.O_RDWR if kind == fcntl.F_WRLCK else os.O_RDONLY))
        fcntl.fcntl(handle, fcntl.F_SETLEASE, kind)


def locks(me: Me) -> None:
    """On all that can be opened, the files of others and of root too."""
    roots = [me.home, *me.neighbours, *me.given.locks, "/run/gpuadmin", "/run/lock", "/etc"]
    root = me.random.choice(roots)
    done = 0
    for top, _directories, names in os.walk(root):
        for name in [".", *names][:100]:
            with contextlib.suppress(OSError):
                handle = os.open(os.path.join(top, name), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
                me.hold(handle)
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                done += 1
        if done > 30:
            break
    own = me.hold(os.open(me.file("lock"), os.O_RDWR))
    fcntl.lockf(own, fcntl.LOCK_EX | fcntl.LOCK_NB)


def mapped(me: Me) -> None:
    path = me.file("map", 1 << 16)
    with open(path, "r+b") as stream:
        area = me.hold(mmap.mmap(stream.fileno(), 1 << 16))
    for number in me.spin():
        area[number * 4096 % (1 << 16)] = number % 256


def fifos_and_sockets(me: Me) -> None:
    place = me.place("fifo")
    for number in range(3):
        path = os.path.join(place, f"p{number}")
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path)
        me.hold(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(place)
        server = me.hold(socket.socket(socket.AF_UNIX))
        with contextlib.suppress(OSError):
            server.bind(f"s{me.random.randrange(4)}")
            server.listen(1)
    finally:
        os.fchdir(here)
        os.close(here)
    with contextlib.suppress(OSError):  # what overlay file systems call a whiteout: anybody may make one
        os.mknod(os.path.join(place, "whiteout"), stat.S_IFCHR | 0o600, 0)


def open_for_ever(me: Me) -> None:
    """Writes on, through a descriptor and a working directory, wherever the file is moved to meanwhile."""
    path = me.file("open")
    end = min(me.end, time.monotonic() + 4)

    def write() -> None:
        os.chdir(os.path.dirname(path))
        with open(path, "ab", buffering=0) as stream:
            number = 0
            while time.monotonic() < end:
                stream.write(b"late\n")
                number += 1
                with contextlib.suppress(OSError):
                    Path(f"late{number % 5}").write_bytes(b"late")
                time.sleep(0.01)  # a hundred times a second

    me.child(write)


# what a file has beside its content


def acls(me: Me) -> None:
    # linux/posix_acl_xattr.h: version 2, then (tag, permissions, id) for owner, a user, group, mask, others
    users = [os.getuid() + 1, 65534, 0]
    entries = [(1, 6, -1), *[(2, 7, user) for user in sorted(users)], (4, 4, -1), (16, 7, -1), (32, 4, -1)]
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    path = me.file("acl")
    os.setxattr(path, "system.posix_acl_access", value)
    os.setxattr(os.path.dirname(path), "system.posix_acl_default", value)


def attributes(me: Me) -> None:
    path = me.file("xattr")
    for number in range(200):
        size = me.random.choice([0, 1, 255, 4000, 15000, 65536])
        try:
            os.setxattr(path, f"user.{'n' * me.random.randrange(1, 200)}{number}", b"\0\xff" * (size // 2))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.E2BIG, errno.ERANGE, errno.EDQUOT):
                raise
            if number:
                return
            raise
        if time.monotonic() > me.end:
            return


def modes(me: Me) -> None:
    path = me.file("modes")
    os.chmod(path, me.random.choice([0o4777, 0o2755, 0o7777, 0o000]))
    os.chmod(os.path.dirname(path), me.random.choice([0o2777, 0o1777, 0o3777, 0o700]))


def closed(me: Me) -> None:
    """Mode 000 on all that there is, and back for some of it."""
    for top, directories, names in os.walk(me.home):
        for name in (names + directories)[:20]:
            with contextlib.suppress(OSError):
                path = os.path.join(top, name)
                if not os.path.islink(path):
                    os.chmod(path, me.random.choice([0o000, 0o000, 0o700, 0o200]))
        if me.random.random() < 0.05 or time.monotonic() > me.end:
            break


def home_mode(me: Me) -> None:
    """The home itself, closed for a moment, then open for all, then as it was."""
    for mode in (0o000, 0o777, 0o700):
        os.chmod(me.home, mode)
        time.sleep(0.01)  # each mode is there for a moment


def flags(me: Me) -> None:
    path = me.file("flags")
    done = 0
    for flag in (0x10, 0x20, 0x40, 0x80, 0x8, 0x4, 0x800000, 0x1):  # +i and +a are root's to give
        handle = os.open(path, os.O_RDONLY)
        try:
            buffer = array.array("B", bytes(8))
            fcntl.ioctl(handle, GETFLAGS, buffer, True)
            (now,) = struct.unpack_from("=L", buffer)
            with contextlib.suppress(OSError):
                fcntl.ioctl(handle, SETFLAGS, struct.pack("=LL", now ^ flag, 0))
                done += 1
        finally:
            os.close(handle)
    if not done:
        raise Refused("no flag can be changed")


def times(me: Me) -> None:
    path = me.file("times")
    seconds = me.random.choice([16725225600, -1, -(1 << 31), 1 << 34, 0, 253402300800])
    os.utime(path, ns=(seconds * 10**9, seconds * 10**9 + 1))
    os.utime(os.path.dirname(path), ns=(seconds * 10**9, seconds * 10**9 + 1))


def others_linked(me: Me) -> None:
    """Further names of what belongs to others: hard ones where the kernel lets it, symbolic ones everywhere."""
    place = me.place("others")
    number = 0
    for top in [*me.neighbours, me.given.elsewhere, "/etc"]:
        for name in ("", "thesis", "shadow", "passwd", "data/set"):
            number += 1
            with contextlib.suppress(OSError):
                os.symlink(os.path.join(top, name), os.path.join(place, f"l{number}"))
            with contextlib.suppress(OSError):
                os.link(os.path.join(top, name), os.path.join(place, f"h{number}"), follow_symlinks=False)


def hard_links(me: Me) -> None:
    path = me.file("hard")
    for number in range(60):
        with contextlib.suppress(FileExistsError):
            os.link(path, f"{path}-{number}")


# subvolumes, which anybody can make on btrfs


def _subvolume(above: str, name: str) -> None:
    handle = os.open(above, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(handle, SUBVOL_CREATE, bytearray(struct.pack("=q4088s", 0, name.encode())))
    finally:
        os.close(handle)


def subvolumes(me: Me) -> None:
    place = me.place("volume", me.random.choice([me.home, me.random.choice(me.places)]))
    name = me.random.choice(["v0", "v\n1", "[v]"])
    path = os.path.join(place, name)
    if not os.path.isdir(path):
        _subvolume(place, name)
    with contextlib.suppress(OSError):
        with open(os.path.join(path, "inside"), "wb") as stream:
            stream.write(b"in a subvolume")
        _subvolume(path, "deeper")
    source = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    above = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:  # a snapshot of it, read-only or not; then itself, read-only or not
        argument = struct.pack(
            "=qQQ32s4040s", source, 0, me.random.choice([0, 2]), b"", f"snap{me.random.randrange(3)}".encode()
        )
        with contextlib.suppress(OSError):
            fcntl.ioctl(above, SNAP_CREATE_V2, bytearray(argument))
        with contextlib.suppress(OSError):
            fcntl.ioctl(source, SUBVOL_SETFLAGS, struct.pack("=Q", me.random.choice([0, 2])))
    finally:
        os.close(source)
        os.close(above)


def subvolume_exchanged(me: Me) -> None:
    """A subvolume that is a link to somebody else's a moment later, and the other way round; and elsewhere."""
    place = me.place("subvolume-link", me.home)
    path, link, moved = (os.path.join(place, name) for name in ("subvolume", "link", "moved"))
    if not os.path.lexists(path):
        _subvolume(place, "subvolume")
    if not os.path.lexists(link):
        os.symlink(me.random.choice([os.path.dirname(me.home), *(f"{one}/volume" for one in me.neighbours)]), link)
    for number in me.spin(0.4):
        exchange(path, link)
        if number % 5 == 0:
            with contextlib.suppress(OSError):
                os.rename(path, moved)
                os.rename(moved, path)


def deep_subvolume(me: Me) -> None:
    """A subvolume at the end of a path that no call takes as a whole."""
    here = os.open(me.place("deepvolume", me.home), os.O_RDONLY | os.O_DIRECTORY)
    try:
        for _ in range(me.random.choice([5, 19, 40])):
            with contextlib.suppress(FileExistsError):
                os.mkdir("x" * 220, dir_fd=here)
            inner = os.open("x" * 220, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = inner
        with contextlib.suppress(FileExistsError):
            fcntl.ioctl(here, SUBVOL_CREATE, bytearray(struct.pack("=q4088s", 0, b"volume")))
    finally:
        os.close(here)


# files that change while they are read


def churned(me: Me) -> None:
    path = me.file("churn", 1 << 16)
    for number in me.spin(0.3):
        with open(path, "r+b") as stream:
            stream.truncate(me.random.choice([0, 1, 4096, 1 << 16, 1 << 30]))
            stream.seek(number % 4096)
            stream.write(b"changed")
        if number % 5 == 0:
            os.utime(path, ns=(0, 0))
        if number % 7 == 0:
            os.rename(path, path + "~")
            os.rename(path + "~", path)


def deleted_while_walked(me: Me) -> None:
    place = me.place("walked")
    for number in me.spin(0.3):
        path = os.path.join(place, f"d{number % 7}", "e")
        if os.path.isdir(path):
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)
        else:
            os.makedirs(path, exist_ok=True)
            with open(os.path.join(path, "f"), "wb") as stream:
                stream.write(b"x")


def synced(me: Me) -> None:
    path = me.file("sync")
    with open(path, "r+b", buffering=0) as stream:
        for _ in me.spin():
            stream.write(b"x" * 4096)
            os.fsync(stream.fileno())
            stream.seek(0)


# namespaces and mounts


def _own_namespace() -> None:
    uid, gid = os.getuid(), os.getgid()
    checked(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS))
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        Path("/proc/self", name).write_text(text)
    mount("none", "/", None, MS_REC | MS_PRIVATE)


def own_mounts(me: Me) -> None:
    """In a namespace of its own: the home under a tmpfs, a neighbour's over it, a FUSE that never answers."""
    place = me.place("mount", me.home)
    seconds = min(3.0, max(me.end - time.monotonic(), 0))
    ready, said = os.pipe()

    def work() -> None:
        _own_namespace()
        mount(me.random.choice([*me.neighbours, "/etc", me.home]), place, None, MS_BIND | MS_REC)
        mount("tmpfs", place, "tmpfs", 0, "size=1m")
        Path(place, "inside").write_bytes(b"in a tmpfs")
        os.chdir(place)
        with contextlib.suppress(OSError):
            handle = os.open("/dev/fuse", os.O_RDWR)
            os.makedirs("fuse", exist_ok=True)
            mount("dead", "fuse", "fuse", 0, f"fd={handle},rootmode=40000,user_id=0,group_id=0")
        os.write(said, b"1")
        time.sleep(seconds)  # it is there as long as that

    me.child(work)
    os.close(said)
    done = os.read(ready, 1)
    os.close(ready)
    if not done:
        raise Refused("no namespaces of its own")


# processes


def forks(me: Me) -> None:
    """Each leaves another one behind, with another number."""
    end = min(me.end, time.monotonic() + 2)

    def work() -> None:
        while time.monotonic() < end:
            if os.fork():
                os._exit(0)
            time.sleep(0.005)  # as many as the limit of processes bears

    me.child(work)


def stopped(me: Me) -> None:
    """Stops itself, with a lock and a lease in its hands."""
    path = me.file("stopped")

    def work() -> None:
        handle = os.open(path, os.O_RDWR)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(OSError):
            fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        os.kill(os.getpid(), signal.SIGSTOP)

    me.child(work)


def deaf(me: Me) -> None:
    end = me.end

    def work() -> None:
        for number in range(1, signal.NSIG):
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_IGN)
        os.setsid()
        while time.monotonic() < end:
            time.sleep(0.2)  # it only has to be there

    me.child(work)


def named(me: Me) -> None:
    """A process whose name is a program for a terminal, or somebody else's."""
    name = me.random.choice(ESCAPES)
    seconds = min(3.0, max(me.end - time.monotonic(), 0))

    def work() -> None:
        LIBC.prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)
        time.sleep(seconds)  # it only has to be there

    def program() -> None:
        os.execv("/bin/sleep", [name, str(seconds)])

    me.child(work)
    me.child(program)


def ports(me: Me) -> None:
    done = 0
    for port in me.given.port:
        for family, address in ((socket.AF_INET, me.given.address), (socket.AF_INET6, "::")):
            if family == socket.AF_INET6 and me.given.address:
                continue
            with contextlib.suppress(OSError):
                server = me.hold(socket.socket(family, socket.SOCK_STREAM))
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                server.bind((address, port))
                server.listen(1)
                done += 1
    if not done:
        raise Refused("all ports are taken")


def crontab(me: Me) -> None:
    me.tool("crontab", "-", text="* * * * * true \x1b[31m\n@reboot sleep 10000\n")


def at_job(me: Me) -> None:
    me.tool("at", "now + 1 minute", text="sleep 100\n")


def lingering(me: Me) -> None:
    me.tool("loginctl", "enable-linger")
    me.tool("systemd-run", "--user", "--collect", "--quiet", "sleep", "100")


def failing_unit(me: Me) -> None:
    """A user unit that has failed, for whoever counts failed units."""
    me.tool("systemd-run", "--user", "--quiet", "--wait", "--unit", f"fails-{me.random.randrange(5)}", "true")


def docker_self(me: Me) -> None:
    """Ask for Docker and stop in the middle of it, as Ctrl-Z does."""
    program = shutil.which("add-me-to-docker-user")
    if program is None:
        raise Refused("no add-me-to-docker-user")
    path = program

    def work() -> None:
        process = subprocess.Popen(
            [path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(me.random.random())  # at any moment of what the program does
        for number in (signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL):
            with contextlib.suppress(OSError):  # what is root's cannot be signalled, what is ours can
                os.kill(process.pid, number)
            time.sleep(0.3)  # stopped, and going on, for a while

    me.child(work)


def looked(me: Me) -> None:
    """Read all that can be read, and remember where what is not for these eyes was."""
    token = me.given.token.encode()
    if not token:
        raise Refused("nothing to look for")
    count = 0
    tops = [*me.given.peek, *me.neighbours, me.given.elsewhere, *me.places]
    me.random.shuffle(tops)
    for start in tops:
        for top, _directories, names in os.walk(start):
            for name in names:
                count += 1
                if count > 3000 or time.monotonic() > me.end:
                    return
                path = os.path.join(top, name)
                try:
                    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                except OSError:
                    continue
                try:
                    found = stat.S_ISREG(os.fstat(handle).st_mode) and token in os.read(handle, 1 << 16)
                except OSError:
                    continue
                finally:
                    os.close(handle)
                if found:
                    with open(me.given.loot, "a", encoding="utf-8", errors="backslashreplace") as stream:
                        stream.write(f"{path!r}\n")


Trick = Callable[[Me], None]
TRICKS: dict[str, Trick] = {
    one.__name__.replace("_", "-"): one
    for one in (
        link_and_back, exchanged, top_exchanged, moved_up_and_down, vanishing, ambush, guessed_names, sparse,
        deep, crowd, odd_names, odd_names_on_top, filled, leases, locks, mapped, fifos_and_sockets,
        open_for_ever, acls, attributes, modes, closed, home_mode, flags, times, others_linked, hard_links,
        subvolumes, subvolume_exchanged, deep_subvolume, churned, deleted_while_walked, synced, own_mounts,
        forks, stopped, deaf, named, ports, crontab, at_job, lingering, failing_unit, docker_self, looked,
    )
}  # fmt: skip


def order(given: argparse.Namespace, number: int) -> Any:
    """The names of a worker's tricks, for ever, the same for the same seed.

    First its share of all, so that the workers have done each of them once; an empty name stands for the end of that;
    then at random.
    """
    chosen = sorted(given.only or (set(TRICKS) - set(given.without)))
    random.Random(given.seed).shuffle(chosen)
    yield from chosen[number :: given.workers]
    yield ""
    dice = random.Random(f"{given.seed}/{number}")
    while True:
        yield dice.choice(chosen)


class Over(BaseException):
    """A trick has taken too long."""


def _over(*_: object) -> None:
    raise Over


def attempt(trick: Callable[[Me], None], me: Me) -> None:
    """Do it; once more where another worker had just closed the home (``home_mode``)."""
    try:
        trick(me)
    except PermissionError:
        time.sleep(0.05)  # the home is closed for 0.02 s
        trick(me)


def work(given: argparse.Namespace, number: int, report: int) -> None:
    """What one worker does until its time is over; what it did goes to the pipe, as a line of JSON."""
    me = Me(given, number)
    done: dict[str, int] = {}
    skipped: dict[str, str] = {}
    signal.signal(signal.SIGALRM, _over)
    for count, name in enumerate(order(given, number)):
        if time.monotonic() > me.end or count >= given.rounds > 0:
            break
        if not name:
            os.write(1, b"all were done once\n")
            continue
        signal.setitimer(signal.ITIMER_REAL, 3, 1)
        try:
            attempt(TRICKS[name], me)
            done[name] = done.get(name, 0) + 1
        except (OSError, Refused, subprocess.SubprocessError, ValueError) as error:
            skipped[name] = f"{type(error).__name__}: {error}"
        except Over:
            skipped[name] = "took too long"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        with contextlib.suppress(OSError):
            os.chmod(me.home, 0o700)
        time.sleep(given.pause)  # how much of the machine the attack may have
    os.write(report, (json.dumps([done, skipped]) + "\n").encode())


def descendants() -> list[int]:
    """All processes of this person that this one has started: they come back to it when their parents end."""
    above: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                text = Path("/proc", name, "stat").read_bytes()
                above[int(name)] = int(text.rpartition(b")")[2].split()[1])
    found, more = [], [os.getpid()]
    while more:
        parent = more.pop()
        inner = [pid for pid, one in above.items() if one == parent]
        found += inner
        more += inner
    return found


def end_all() -> None:
    """Kill what is left until nothing is."""
    for _ in range(200):
        for pid in descendants():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.02)  # between two looks for children that have ended


def limits(given: argparse.Namespace) -> None:
    """Bounds that hold whatever a trick does. Files may be as large as they like: holes cost nothing."""
    for what, most in (
        (resource.RLIMIT_NPROC, given.most_processes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 512),
    ):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (most, most) if hard in (resource.RLIM_INFINITY, -1) or most <= hard else (hard, hard))
    os.nice(5)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--seed", type=int, default=0, help="0: one from the clock")
    add("--seconds", type=float, default=10)
    add("--home", default=os.path.expanduser("~"))
    add("--scratch", nargs="*", default=[], help="directories beside the home that it may write to")
    add("--neighbour", nargs="*", default=[], help="others' homes")
    add("--elsewhere", default="/etc", help="where links lead")
    add("--peek", nargs="*", default=[], help="directories of root's to look into")
    add("--locks", nargs="*", default=[], help="directories whose files are locked, if they can be opened")
    add("--token", default="", help="text that others' files hold, and that nobody gave it")
    add("--loot", default="/dev/null", help="file that gets the paths where the token was read")
    add("--bytes", type=int, default=64 << 20, help="most that is written to fill a disk")
    add("--workers", type=int, default=3)
    add("--processes", type=int, default=6, help="most beside each worker at a time")
    add("--most-processes", type=int, default=200, help="most of this account altogether")
    add("--port", type=int, nargs="*", default=[7370, 7371, 2375, 9100, 9090, 8080])
    add("--address", default="", help="where ports are bound; the default is everywhere")
    add("--only", nargs="*", default=[])
    add("--without", nargs="*", default=[])
    add("--rounds", type=int, default=0, help="tricks of each worker; 0: until the time is over")
    add("--pause", type=float, default=0.0, help="seconds between two tricks of a worker")
    add("--linger", action="store_true", help="leave at the end what runs in the background")
    add("--tied", action="store_true", help="end with the process that has started it")
    add("--list", action="store_true", help="print the order of the tricks and end")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    given = parse(arguments)
    given.seed = given.seed or time.time_ns() % 10**9
    print(f"seed {given.seed}", flush=True)
    if given.list:
        for number in range(given.workers):
            names = order(given, number)
            print(number, *(next(names) for _ in range(len(TRICKS) + 20)))
        return 0
    if os.getuid() == 0 or os.geteuid() == 0:
        print("this is for an ordinary account", file=sys.stderr)
        return 2
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setsid()
    limits(given)
    if given.tied:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    checked(LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    workers: list[tuple[int, int]] = []
    for number in range(given.workers):
        theirs, ours = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(theirs)
            if not given.linger:
                LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            try:
                work(given, number, ours)
            finally:
                os._exit(0)
        os.close(ours)
        workers.append((pid, theirs))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans come to this process, and none stays to count as one
    done: dict[str, int] = {}
    skipped: dict[str, str] = {}
    for pid, theirs in workers:
        with os.fdopen(theirs, "r", encoding="utf-8") as stream:
            line = stream.readline()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        if line:
            some, others = json.loads(line)
            skipped.update(others)
            for name, count in some.items():
                done[name] = done.get(name, 0) + count
    if not given.linger:
        end_all()
    print(json.dumps({"done": done, "skipped": {name: why for name, why in skipped.items() if name not in done}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

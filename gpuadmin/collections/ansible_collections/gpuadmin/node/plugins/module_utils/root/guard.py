"""Opens a root that is read-only by its btrfs property, and closes it again whatever happens.

This file needs no other one of this package: it is run as a program before anything is installed.

Every opener holds a shared flock on one file; whoever can turn it into an exclusive one is the last and closes: sync,
ro=true, sync. The sync before comes first because a cut after ro=true without it leaves empty files. A guard process
shares the opener's lock and closes in its place if it dies. A boot unit closes what a power cut left open.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

try:
    from ..holders import name_lock_holder
except ImportError:  # this file alone

    def name_lock_holder(handle: int, proc: str = "/proc") -> str:
        return "a running program"


# linux/btrfs.h: _IOR(0x94, 25, __u64), _IOW(0x94, 26, __u64), _IO(0x94, 8), _IOR(0x94, 60, 504 bytes)
SUBVOL_GETFLAGS, SUBVOL_SETFLAGS, SYNC, GET_SUBVOL_INFO = 0x80089419, 0x4008941A, 0x9408, 0x81F8943C
SUBVOL_RDONLY = 1 << 1
RECEIVED_UUID = slice(328, 344)  # in struct btrfs_ioctl_get_subvol_info_args
MARKER = "root-is-read-only"
STATE = "/var/lib/gpuadmin"
RUN = "/run/gpuadmin"
DEADLINE = "root-session.deadline"
CLOSING_SECONDS = 300.0  # closing syncs the file system, which a busy disk can make long


class RootError(Exception):
    """The root cannot be opened or closed; the text says why."""


@dataclass(frozen=True)
class Root:
    """One root: ``path`` as the caller sees it, the subvolume it is, and whether it is meant to be read-only."""

    path: str
    subvolume: str | None  # path inside the file system, None where it is not btrfs
    managed: bool


def _mount(path: str) -> tuple[str, str] | None:
    """(path inside the file system, type) of what is mounted at ``path``; the last mount there wins."""
    found = None
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
        for line in stream:
            left, separator, right = line.partition(" - ")
            parts = [re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), one) for one in left.split(" ")]
            if separator and len(parts) >= 6 and parts[4] == path:
                found = (parts[3], right.split(" ")[0])
    return found


def _flags(path: str) -> int:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        buffer = bytearray(8)
        fcntl.ioctl(handle, SUBVOL_GETFLAGS, buffer)
        return int(struct.unpack("=Q", buffer)[0])
    finally:
        os.close(handle)


def is_read_only(path: str) -> bool:
    """Whether the btrfs subvolume at ``path`` has its read-only property set."""
    return bool(_flags(path) & SUBVOL_RDONLY)


def received_uuid(path: str) -> bytes | None:
    """The received_uuid of the subvolume at ``path``, None if it has none."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        buffer = bytearray(504)
        fcntl.ioctl(handle, GET_SUBVOL_INFO, buffer)
    finally:
        os.close(handle)
    value = bytes(buffer[RECEIVED_UUID])
    return value if any(value) else None


def sync(path: str) -> None:
    """Commit the btrfs file system at ``path`` to disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(handle, SYNC)
    finally:
        os.close(handle)


def set_read_only(path: str, value: bool) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        buffer = bytearray(8)
        fcntl.ioctl(handle, SUBVOL_GETFLAGS, buffer)
        flags = struct.unpack("=Q", buffer)[0]
        wanted = flags | SUBVOL_RDONLY if value else flags & ~SUBVOL_RDONLY
        if wanted != flags:
            fcntl.ioctl(handle, SUBVOL_SETFLAGS, struct.pack("=Q", wanted))
    finally:
        os.close(handle)


def inspect(path: str = "/", state: str = STATE) -> Root:
    """Given a root directory, say what it is. Only a btrfs subvolume mounted there can be managed."""
    mounted = _mount(os.path.realpath(path))
    if mounted is None or mounted[1] != "btrfs":
        return Root(path, None, False)
    marked = os.path.exists(os.path.join(state, MARKER))
    return Root(path, mounted[0], mounted[0].startswith("/roots/") or marked or is_read_only(path))


def _close(path: str) -> None:
    sync(path)
    set_read_only(path, True)
    sync(path)


def _last(lock: int) -> bool:
    """Try to become the only holder of the lock. Two who try at once: at least one succeeds."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait(lock: int, run: str, seconds: float) -> None:
    """Share the lock; waits for somebody who is just closing, but not for ever for one who never does."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                message = f"{run}/root.lock has been held for {seconds:.0f} seconds by {name_lock_holder(lock)}"
                raise RootError(message) from None
            time.sleep(0.05)  # asked again: flock(2) that waits has no deadline


def _private(run: str) -> None:
    """Make the directory of the locks root's alone: whoever can open a lock can hold it as well."""
    os.makedirs(run, mode=0o700, exist_ok=True)
    facts = os.lstat(run)
    # guard: the directory of the root's lock is nobody else's
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise RootError(f"{run} is not root's directory; no lock is kept there")
    if stat.S_IMODE(facts.st_mode) != 0o700:
        os.chmod(run, 0o700)  # guard: the directory of the root's lock is root's alone


def _lock_file(run: str) -> int:
    _private(run)
    return os.open(os.path.join(run, "root.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _guard(path: str, lock: int) -> int:
    """Start the process that closes ``path`` when we die; return the pipe that tells it that we closed it ourselves."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(reader)
        os.waitpid(child, 0)
        return writer
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        # systemd ends a unit with SIGTERM to all its processes: the opener closes then, and this one must outlive it.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)  # else whoever reads our output would wait for the guard
        for handle in range(3, 1024):
            if handle not in (reader, lock):
                try:
                    os.close(handle)
                except OSError:
                    pass
        if os.read(reader, 1) == b"" and _last(lock):
            _close(path)
    finally:
        os._exit(0)


@contextmanager
def open_root(path: str = "/", *, state: str = STATE, run: str = RUN) -> Iterator[bool]:
    """Make the root at ``path`` writable for the block; yields whether that took anything (ordinary roots: False)."""
    root = inspect(path, state)
    if not root.managed:
        yield False
        return
    if received_uuid(path):  # guard: a received root is never made writable
        raise RootError(
            f"the running root {root.subvolume} is a received subvolume; it is never made writable. "
            "Boot a root that was made from it (a writable snapshot)"
        )
    lock = _lock_file(run)
    writer = -1
    try:
        _wait(lock, run, CLOSING_SECONDS)
        writer = _guard(path, lock)
        set_read_only(path, False)
        yield True
    finally:
        if writer >= 0:
            if _last(lock):
                _close(path)
            os.write(writer, b"k")
            os.close(writer)
        os.close(lock)


def close_left_open(path: str = "/", *, state: str = STATE, run: str = RUN) -> str:
    """Close a root that is meant to be read-only and that nobody holds; return what was found, in words."""
    root = inspect(path, state)
    if not root.managed:
        return "this root is an ordinary one: nothing to close"
    lock = _lock_file(run)
    try:
        if not _last(lock):  # guard: a root that somebody holds is not closed
            return f"the root is held open by {name_lock_holder(lock)}; it closes it when it ends"
        if is_read_only(path):
            return "the root is read-only"
        _close(path)
        return "the root was left open: closed"
    finally:
        os.close(lock)


def notify(text: str) -> None:
    """Tell systemd (sd_notify(3)), where it asks to be told. Raises OSError."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.connect("\0" + address[1:] if address[0] == "@" else address)
            channel.send(text.encode())


def write_deadline(seconds: float, run: str = RUN) -> None:
    """Say until when a held root stays open, in seconds of the boot clock from now."""
    _private(run)
    path = os.path.join(run, DEADLINE)
    with open(path + ".new", "w", encoding="ascii") as stream:
        stream.write(f"{time.clock_gettime(time.CLOCK_BOOTTIME) + seconds:.0f}\n")
    os.rename(path + ".new", path)


def _remaining(run: str) -> float:
    try:
        with open(os.path.join(run, DEADLINE), encoding="ascii") as stream:
            return float(stream.read()) - time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, ValueError):
        return 0.0


def hold(path: str = "/", *, lease: float, state: str = STATE, run: str = RUN) -> None:
    """Keep the root open until the lease (which ``write_deadline`` renews) ends or a signal comes."""
    stopped = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal stopped
        stopped = True

    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in signals:
        signal.signal(number, stop)
    write_deadline(lease, run)
    with open_root(path, state=state, run=run):
        notify("READY=1\nSTATUS=the root is open")
        # blocked only while we wait: what closes the root starts programs, which would inherit it
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        try:
            while not stopped and (left := _remaining(run)) > 0:
                stopped = signal.sigtimedwait(signals, min(left, 5.0)) is not None
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="open and close a read-only btrfs root")
    parser.add_argument("command", choices=("hold-root", "close-root"))
    parser.add_argument("--lease", type=float, default=1800.0, help="seconds")
    parser.add_argument("--root", default="/", help=argparse.SUPPRESS)
    parser.add_argument("--state", default=STATE, help=argparse.SUPPRESS)
    parser.add_argument("--run", default=RUN, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        if options.command == "hold-root":
            hold(options.root, lease=options.lease, state=options.state, run=options.run)
        else:
            print(close_left_open(options.root, state=options.state, run=options.run))
    except (RootError, OSError) as error:
        where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        print(f"Error: {where}{getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

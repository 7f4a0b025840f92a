"""Who holds a lock, so that a lock that is not released has a name and a way out."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from .lookup import find_name
from .open_files import places

#: What proc(5) calls a process that somebody has stopped, or that a debugger holds.
STOPPED = ("T", "t")


@dataclass(frozen=True)
class Process:
    """A process as /proc shows it. ``since``: seconds since 1970 at which it started; ``frozen``: by its cgroup."""

    pid: int
    command: str
    user: str
    since: float
    stopped: bool
    frozen: bool

    def __str__(self) -> str:
        state = "stopped" if self.stopped else "frozen by its cgroup" if self.frozen else "running"
        begun = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        text = f"process {self.pid} ({self.command}) of {self.user}, {state}, started {begun}"
        if self.stopped or self.frozen:
            return f"{text}. It does not move: let it go on (kill -CONT {self.pid}) or end it (kill -KILL {self.pid})"
        return text


def _read(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read(4096)


def _frozen(proc: str, pid: int, cgroups: str) -> bool:
    for line in _read(f"{proc}/{pid}/cgroup").decode("utf-8", "replace").splitlines():
        number, _controllers, path = line.split(":", 2)
        if number == "0":  # cgroup v2
            try:
                return b"frozen 1" in _read(f"{cgroups}{path}/cgroup.events")
            except OSError:
                return False
    return False


def describe(pid: int, proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> Process | None:
    """The process ``pid``, or None if it is gone. What its owner may choose (its command) comes as printable ASCII."""
    try:
        text = _read(f"{proc}/{pid}/stat").decode("utf-8", "replace")
        name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        status = dict(
            line.split(":", 1) for line in _read(f"{proc}/{pid}/status").decode(errors="replace").splitlines()
        )
        uid = int(status["Uid"].split()[0])  # the real one: a setuid program belongs to whoever called it
        frozen = _frozen(proc, pid, cgroups)
    except (OSError, ValueError, IndexError):
        return None
    user = find_name(uid) or f"uid {uid}"
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    since = boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")  # field 22 of proc(5)
    return Process(
        pid,
        ascii(name)[1:-1],  # guard: what a process is called reaches the screen as printable text -> name
        user,
        since,
        fields[0] in STOPPED,
        frozen,
    )


def _candidates(inode: int, proc: str) -> Iterator[int]:
    """Processes that may hold a lock on the inode: those of /proc/locks first, then all.

    A lock of flock(2) goes on in a child after the process that took it, which alone /proc/locks names, is gone.
    """
    with open(f"{proc}/locks", encoding="ascii", errors="replace") as stream:
        for line in stream:
            columns = line.split()
            if "->" not in columns and len(columns) >= 6 and columns[5].rpartition(":")[2] == str(inode):
                yield int(columns[4])
    yield from (int(name) for name in os.listdir(proc) if name.isdigit())


def _open(process: str) -> Iterator[tuple[str, str]]:
    """Where each open file of /proc/PID is listed, and its number; none if it has ended."""
    try:
        threads = places(process)
    except OSError:
        return
    for place in threads:
        try:
            for name in os.listdir(f"{place}/fd"):
                yield place, name
        except OSError:
            continue  # that thread has ended; others have the same files


def _holds(pid: int, facts: os.stat_result, proc: str) -> bool:
    """Whether a process holds a lock on the file through one of its descriptors; who only waits for it does not."""
    for place, name in _open(f"{proc}/{pid}"):
        try:
            found = os.stat(f"{place}/fd/{name}")
            # Not the device number of /proc/locks: on btrfs that differs from stat's.
            same = (found.st_dev, found.st_ino) == (facts.st_dev, facts.st_ino)
            if (
                same
                # guard: who only has the file of a lock open is not taken for its holder
                and b"\nlock:" in _read(f"{place}/fdinfo/{name}")
            ):
                return True
        except OSError:
            continue
    return False


def name_lock_holder(handle: int, proc: str = "/proc") -> str:
    """Given a descriptor of a locked file, say in words which other process holds it; never fails."""
    try:
        facts = os.fstat(handle)
        for pid in _candidates(facts.st_ino, proc):
            if _holds(pid, facts, proc):
                found = describe(pid, proc)
                if found is not None:
                    return str(found)
    except (OSError, ValueError):
        pass
    return "a process that cannot be seen from here"

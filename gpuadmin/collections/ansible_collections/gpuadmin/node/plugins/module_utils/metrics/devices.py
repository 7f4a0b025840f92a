"""Which processes have a GPU open: by inode and mount, not by name, and without asking any file's file system.

A person may bind a device to another name in namespaces of their own, or have files open whose file system never
answers (a dead NFS server, FUSE): a link in /proc/PID/fd is read, never followed.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from ..cgroups import cgroup_path
from ..open_files import places
from .owners import Owners

#: What a device is: ("gpu", its minor), or ("cap", its minor) for a part of a divided GPU.
Key = tuple[str, int]
#: By inode: the file system's number and what it is.
Nodes = dict[int, list[tuple[str, Key]]]
#: It has every GPU open all the time, and uses none.
SAMPLER = "gpuadmin-metrics-sampler.service"
_GPU, _CAP = re.compile(r"nvidia(\d{1,3})"), re.compile(r"nvidia-cap(\d{1,6})")
MOST_FILES = 4096  # open files of one process
MOST_PROCESSES = 512  # of one person, in one round
MOST_OF_ONE = 1 << 16  # open files of one person, in one round: about a second
_MOST = 1 << 20  # bytes of a list of mounts


def nodes(directory: str = "/dev") -> Nodes:
    """The device nodes of this host's GPUs."""
    found: Nodes = {}
    for place, pattern, kind in ((directory, _GPU, "gpu"), (f"{directory}/nvidia-caps", _CAP, "cap")):
        for name in _names(place):
            match = pattern.fullmatch(name)
            if match:
                _note(found, f"{place}/{name}", (kind, int(match.group(1))))
    return found


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _note(found: Nodes, path: str, key: Key) -> None:
    try:
        facts = os.lstat(path)
    except OSError:
        return
    if stat.S_ISCHR(facts.st_mode):
        system = f"{os.major(facts.st_dev)}:{os.minor(facts.st_dev)}"
        found.setdefault(facts.st_ino, []).append((system, key))


def by_name(path: str) -> Key | None:
    """What a device is, by its path: for kernels that say no more. A person can have another name for it there."""
    directory, _, name = path.rpartition("/")
    for place, pattern, kind in (("/dev", _GPU, "gpu"), ("/dev/nvidia-caps", _CAP, "cap")):
        match = pattern.fullmatch(name) if directory == place else None
        if match:
            return kind, int(match.group(1))
    return None


@dataclass(frozen=True)
class File:
    """An open file: where it is listed (/proc/PID, or a thread's), its number, its inode and its mount."""

    place: str
    name: str
    inode: int
    mount: int


def find_open_file(base: str, name: str) -> File | None:
    """None for anything that is not a file with a path, or has been closed."""
    try:
        # anything but a path (a socket, a pipe) begins with its kind; no path does
        if os.readlink(f"{base}/fd/{name}")[:1] not in "/(":
            return None
        with open(f"{base}/fdinfo/{name}", "rb") as stream:
            facts = dict(line.split(b":", 1) for line in stream.read(4096).splitlines() if b":" in line)
        return File(base, name, int(facts.get(b"ino", b"0")), int(facts[b"mnt_id"]))
    except (OSError, ValueError, KeyError):
        return None


def has_open(pid: int, minor: int | None, devices: Nodes, proc: str = "/proc") -> bool:
    """Whether a process has this GPU open, by its inode or by its name: a container that root's Docker has made has
    device nodes of its own.
    """
    key = "gpu", minor
    inodes = {inode for inode, which in devices.items() if any(one == key for _, one in which)}
    try:
        for place in places(f"{proc}/{pid}"):
            for name in _names(f"{place}/fd")[:MOST_FILES]:
                file = find_open_file(place, name)
                if file is not None and (file.inode in inodes or by_name(os.readlink(f"{place}/fd/{name}")) == key):
                    return True
    except OSError:
        pass  # it has ended
    return False


class Scanner:
    """Looks through all processes in rounds, some at a time; those that hold a GPU are looked at in each step.

    A round takes people in turn, and so many processes of each: who has very many is looked at in part, and is in
    ``incomplete``; the next round goes on with the others. Of people in ``all_of`` a round takes every process.
    """

    def __init__(
        self,
        owners: Owners,
        proc: str = "/proc",
        clock: Callable[[], float] = time.monotonic,
        all_of: Collection[int] = (),
    ) -> None:
        self._owners, self._proc, self._clock, self._all_of = owners, proc, clock, all_of
        self._open: dict[int, dict[Key, File]] = {}
        self._whose: dict[int, int] = {}
        self._queue: Iterator[int] = iter(())
        self._short: set[int] = set()
        self._files: dict[int, int] = {}  # by person, in this round
        self._last: dict[int, int] = {}  # the last process of a person that a round took, where it took a part
        self.incomplete: frozenset[int] = frozenset()
        self.rounds = 0

    @property
    def whole(self) -> bool:
        """Whether all processes have been looked through at least once."""
        return self.rounds > 1

    @property
    def held(self) -> dict[int, frozenset[Key]]:
        """Which devices a process has open, by its pid."""
        return {pid: frozenset(files) for pid, files in self._open.items()}

    def step(self, devices: Nodes, seconds: float) -> None:
        """Go on for ``seconds``, and see whether those still have it open that had a GPU open."""
        end = self._clock() + seconds
        for pid, files in [*self._open.items()]:
            if any(find_open_file(file.place, file.name) != file for file in files.values()):
                self._look(pid, devices)
        while self._clock() < end:
            upcoming = next(self._queue, None)
            if upcoming is None:
                self.incomplete, self._short, self._files = frozenset(self._short), set(), {}
                self._queue = iter(self._round())
                self.rounds += 1
                return
            self._look(upcoming, devices)

    def _round(self) -> list[int]:
        """The processes that are there now: one of each person in turn."""
        people: dict[int, list[int]] = {}
        for name in os.listdir(self._proc):
            if not name.isdecimal():
                continue
            try:
                whose = self._owner(int(name))
                if whose == 0:  # guard: the kernel's own threads are nobody's share of a round
                    os.readlink(f"{self._proc}/{name}/exe")  # they have none, and a large machine has thousands
            except OSError:
                continue
            people.setdefault(whose, []).append(int(name))
        for whose, pids in people.items():
            # guard: who has very many processes takes their own share of a round
            if len(pids) > MOST_PROCESSES and whose not in self._all_of:
                self._short.add(whose)
                # guard: nobody hides behind processes with smaller numbers
                pids.sort(key=lambda pid: (pid <= self._last.get(whose, 0), pid))
                del pids[MOST_PROCESSES:]
                self._last[whose] = pids[-1]
        longest = max(map(len, people.values()), default=0)
        return [pids[place] for place in range(longest) for pids in people.values() if place < len(pids)]

    def _owner(self, pid: int) -> int:
        """Whose share of a round a process takes; the directory's owner is its effective uid. Raises OSError."""
        uid = os.stat(f"{self._proc}/{pid}").st_uid
        return min(self._owners.of(uid), default=uid)

    def _look(self, pid: int, devices: Nodes) -> None:
        found: dict[Key, File] = {}
        try:
            whose = self._owner(pid)
            for place, mounts, name in self._list_open_files(pid, whose):
                file = find_open_file(place, name)
                if file is None:
                    continue
                if file.inode in devices and not mounts:
                    try:
                        mounts.update(self._mounts(place))
                    except OSError:
                        continue  # that thread has ended; others have the same files
                key = _key(file, devices, mounts) or self._named(file)
                if key is not None:
                    found.setdefault(key, file)
            if found and self._asks(pid):  # guard: our own sampler holds no GPU
                found = {}
        except OSError:
            found = {}  # it has ended
        if not found:
            self._open.pop(pid, None)
            self._whose.pop(pid, None)
        elif pid in self._open or sum(1 for one in self._whose.values() if one == whose) < MOST_PROCESSES:
            self._open[pid], self._whose[pid] = found, whose
        else:
            self._short.add(whose)

    def _asks(self, pid: int) -> bool:
        """Whether it is our sampler: nobody but root puts a process there. Raises OSError if it has ended."""
        with open(f"{self._proc}/{pid}/cgroup", encoding="ascii", errors="replace") as stream:
            return cgroup_path(stream.read(4096)) == f"/system.slice/{SAMPLER}"

    def _list_open_files(self, pid: int, whose: int) -> Iterator[tuple[str, dict[int, str], str]]:
        """Where each open file of a process is listed, what is known of the mounts there, and its number.

        Raises OSError if the process has ended.
        """
        number = 0
        for place in places(f"{self._proc}/{pid}"):
            mounts: dict[int, str] = {}
            for name in _names(f"{place}/fd"):  # none of a thread that has ended
                seen = self._files.get(whose, 0)
                if (
                    number == MOST_FILES
                    or seen == MOST_OF_ONE  # guard: who has very many files takes their own share of a round
                ):
                    self._short.add(whose)
                    return
                number += 1
                self._files[whose] = seen + 1
                yield place, mounts, name

    def _named(self, file: File) -> Key | None:
        """By its name, for a kernel before 5.14, which says no inode. A person can have another name for it there."""
        if file.inode:  # guard: a name is not a device where the kernel says the inode
            return None
        try:
            return by_name(os.readlink(f"{file.place}/fd/{file.name}"))
        except OSError:
            return None

    @staticmethod
    def _mounts(place: str) -> dict[int, str]:
        """The number of the file system of each of a process's mounts."""
        found = {}
        with open(f"{place}/mountinfo", "rb") as stream:
            for line in stream.read(_MOST).splitlines():
                words = line.split(None, 3)
                if len(words) > 3 and words[0].isdigit():
                    found[int(words[0])] = words[2].decode("ascii", "replace")
        return found


def _key(file: File, devices: Nodes, mounts: dict[int, str]) -> Key | None:
    # None: it was opened in a mount that its process no longer has; only they can have done so
    system = mounts.get(file.mount)
    return next(
        (
            key
            for which, key in devices.get(file.inode, ())
            if system in (which, None)  # guard: the same inode of another file system is not a GPU
        ),
        None,
    )

"""Who owns a process: by its cgroup, its uids and the ranges of subordinate ids, all of which come from the kernel or
root.

Nobody can move a process into somebody else's slice, nor give it a uid that is not theirs. What a person does choose
(names of processes, of cgroups within their slice, of files) is not looked at. If these disagree, the process is
nobody's: UNKNOWN, which is shown, and never somebody else's.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gpuadmin.common.metrics import UNKNOWN

from ..accounts.subids import parse as parse_ranges
from ..cgroups import CONTAINER, cgroup_path, slice_owner
from ..fields import FIRST_HUMAN_UID
from ..lookup import Lookup, find_name, system_lookup
from ..textdb import decode

_NOBODY = -1  # a uid that is neither an account's nor in any range
_MOST = 65536  # bytes of a file in /proc
MOST_ABOVE = 64  # parents of a process that are looked at
_LARGEST = 16 << 20  # characters of /etc/subuid
_UID = re.compile(r"[0-9]{1,10}")
_AGAIN = 300.0  # seconds after which names are asked for again


@dataclass(frozen=True)
class Process:
    """``uid``: the owner's; None for UNKNOWN. ``started``: seconds since boot. ``namespace``: that of its pids."""

    pid: int
    started: float
    uid: int | None
    user: str
    container: str
    namespace: str


class Owners:
    """Accounts and ranges of this host, as they are now."""

    def __init__(
        self,
        subuid: str = "/etc/subuid",
        name: Callable[[int], str | None] = find_name,
        lookup: Lookup = system_lookup,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._subuid, self._name_of, self._lookup, self._clock = subuid, name, lookup, clock
        self._read: tuple[float, object] = (-_AGAIN, None)
        self._ranges: list[tuple[int, int, int]] = []
        self._names: dict[int, str | None] = {}

    def refresh(self) -> None:
        """Read the ranges again where the file has changed, and forget names after a while.

        Raises OSError if the file is there and cannot be read: then nobody knows who owns a subuid.
        """
        try:
            facts = os.stat(self._subuid)
            state: object = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
        except FileNotFoundError:  # guard: ranges that cannot be read are not taken for none -> OSError
            state = None
        if state == self._read[1] and self._clock() - self._read[0] < _AGAIN:
            return
        ranges = [] if state is None else self._read_subid_ranges(self._subuid)
        self._read, self._names, self._ranges = (self._clock(), state), {}, ranges

    def _read_subid_ranges(self, path: str) -> list[tuple[int, int, int]]:
        with open(path, "rb") as stream:
            text = decode(stream.read(_LARGEST + 1))
        if len(text) > _LARGEST:
            raise OSError(errno.EFBIG, f"more than {_LARGEST >> 20} MiB", path)
        ranges = []
        for one in parse_ranges(text):
            if one.problem:  # guard: a damaged range gives nobody anything
                continue
            ranges.append((one.start, one.end, self._find_container_owner(one.owner)))
        return ranges

    def _find_container_owner(self, word: str) -> int:
        if _UID.fullmatch(word):
            return int(word)
        try:
            found = self._lookup(word)
        except ValueError:  # what cannot be a name: a NUL, letters that no encoding has
            return _NOBODY
        return found[0] if found else _NOBODY

    def name(self, uid: int) -> str | None:
        if uid not in self._names:
            if len(self._names) > 10_000:
                self._names.clear()
            self._names[uid] = self._name_of(uid)
        return self._names[uid]

    def of(self, uid: int) -> frozenset[int]:
        """The people who may own a uid: none for a system account's, more than one if ranges overlap."""
        if uid < FIRST_HUMAN_UID:
            return frozenset()
        found = {owner for start, end, owner in self._ranges if start <= uid < end}
        if self.name(uid) is not None:
            found.add(uid)
        return frozenset(found or {_NOBODY})

    def attribute(self, uids: Iterable[int], session: int | None) -> int | None:
        """Given a process's uids (real, effective, …) and whose slice it is in, return its owner, or None."""
        numbers = list(uids)
        people = frozenset().union(*(self.of(uid) for uid in numbers)) if numbers else frozenset({_NOBODY})
        if session is not None:
            # what runs as root in somebody's session (sudo) is theirs
            return (
                session
                if not people or session in people
                # guard: what agrees with nobody is nobody's use
                else None
            )
        if not people:
            return numbers[0]
        owner = next(iter(people))
        return (
            owner
            if len(people) == 1 and owner != _NOBODY
            # guard: a uid of nobody is not somebody's
            else None
        )


def find_container_id(path: str) -> str:
    """The id of the container whose cgroup it is, the outermost where there are several; empty outside of any."""
    found = CONTAINER.search(path)
    return found.group(1) if found else ""


def identify(pid: int, owners: Owners, proc: str = "/proc") -> Process | None:
    """Whose a process is; None if it is gone. What was read is of one process: its start is read twice."""
    base = f"{proc}/{pid}"
    try:
        started = _started(base)
        status = _read(f"{base}/status")
        path = cgroup_path(_read(f"{base}/cgroup")) or "/"
        namespace = os.readlink(f"{base}/ns/pid")
        if started != _started(base):  # guard: a process whose number was given away meanwhile is nobody's
            return None
        line = next(line for line in status.splitlines() if line.startswith("Uid:"))
        uids = [int(word) for word in line.split()[1:5]]
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    owner = owners.attribute(uids, slice_owner(path))
    name = None if owner is None else owners.name(owner)
    if (
        owner is None
        # guard: a slice of an account that is gone is nobody's
        or name is None
    ):
        return Process(pid, started, None, UNKNOWN, "", namespace)
    return Process(pid, started, owner, name, find_container_id(path), namespace)


def _started(base: str) -> float:
    """Seconds since boot: field 22 of proc(5)."""
    return int(_stat(base)[19]) / os.sysconf("SC_CLK_TCK")


def parents(pid: int, proc: str = "/proc") -> Iterator[int]:
    """The parent of a process (field 4 of proc(5)), its parent, …"""
    for _ in range(MOST_ABOVE):
        try:
            pid = int(_stat(f"{proc}/{pid}")[1])
        except (OSError, ValueError, IndexError):
            return
        yield pid


def _stat(base: str) -> list[str]:
    """The fields of proc(5) after the name, which may have any character in it: from the third on."""
    return _read(f"{base}/stat").rpartition(")")[2].split()


def _read(path: str) -> str:
    with open(path, "rb") as stream:
        return stream.read(_MOST).decode("utf-8", "replace")

"""Names of people's containers, from their own Docker daemons: asked as they are, rarely, and within bounds.

What a daemon answers is whatever its person likes: it names that person's containers and nothing else.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..diagnosis.docker import ask_daemon
from ..diagnosis.sessions import cgroup_alive
from ..errors import NodeError
from .owners import Process

CGROUPS = "/sys/fs/cgroup"
SECONDS = 0.5  # that one daemon gets for one question
PASS_SECONDS = 1.0  # for all daemons in one pass; the others are asked in the next
#: Seconds until somebody's daemon is asked again; where it does not answer, longer each time.
AGAIN, RARELY = 30.0, 600.0
MOST = 64  # containers of one person
MOST_INSPECTED = 16
SHORT = 12  # letters of an id that stand for a name, as Docker shows it
_NAME = re.compile(r"/?([a-zA-Z0-9][a-zA-Z0-9_.-]{0,63})\Z")
_ID = re.compile(r"[0-9a-f]{64}\Z")


class Names:
    """What is known of people's containers. ``silent``: those whose daemon did not answer when it was last asked."""

    def __init__(
        self,
        asked: Callable[[str, int, str, float], Any] = ask_daemon,
        alive: Callable[[int], bool] = lambda uid: cgroup_alive(uid, "docker.service", CGROUPS),
        clock: Callable[[], float] = time.monotonic,
        proc: str = "/proc",
    ) -> None:
        self._ask, self._alive, self._clock, self._proc = asked, alive, clock, proc
        self._names: dict[int, dict[str, str]] = {}
        self._spaces: dict[int, dict[str, str]] = {}
        self._next: dict[int, tuple[float, float]] = {}
        self.silent: set[int] = set()

    def of(self, process: Process, host: str) -> str:
        """A process's container, by its name, or else the beginning of its id; empty if it is in none."""
        found = self.ident(process, host)
        return "" if process.uid is None else self._names.get(process.uid, {}).get(found, found[:SHORT])

    def ident(self, process: Process, host: str) -> str:
        """The id of a process's container; empty if it is in none.

        ``host``: the host's own namespace of pids. Without a cgroup of its own, a container has a namespace.
        """
        if process.uid is None:
            return ""
        if process.container or process.namespace == host:
            return process.container
        return self._spaces.get(process.uid, {}).get(process.namespace, "")

    def learn(self, processes: Iterable[Process], host: str) -> None:
        """Ask the daemons of those whose containers have no name yet."""
        wanted: dict[int, set[str]] = {}
        for one in processes:
            if one.uid is None:
                continue
            if one.container:
                known: Mapping[str, str] = self._names.get(one.uid, {})
            else:
                known = self._spaces.get(one.uid, {})
            key = one.container or ("" if one.namespace == host else one.namespace)
            if key and key not in known:
                wanted.setdefault(one.uid, set()).add(key)
        now = self._clock()
        end = now + PASS_SECONDS
        # the longest waiting comes first: nobody's slow daemon keeps another from being asked
        for uid in sorted(wanted, key=lambda uid: self._next.get(uid, (0.0, 0.0))[0]):
            due, delay = self._next.get(uid, (0.0, 0.0))
            if self._clock() >= end:
                break
            if now < due:
                continue
            answered = self._learn(uid, any(not _ID.match(one) for one in wanted[uid]), end)
            delay = AGAIN if answered else min(max(2 * delay, AGAIN), RARELY)
            self._next[uid] = (now + delay, delay)
            (self.silent.discard if answered else self.silent.add)(uid)
        self.silent &= wanted.keys()
        self._forget(wanted)

    def _learn(self, uid: int, spaces: bool, end: float) -> bool:
        """Ask one daemon. False where it did not answer as one should."""
        if not self._alive(uid):  # guard: a daemon that does not run is not asked for names
            return True  # asking would start it
        path = f"/run/user/{uid}/docker.sock"
        try:
            listed = self._ask(path, uid, f"/containers/json?limit={MOST}", SECONDS)
            self._names[uid] = read_container_names(listed)
            if not spaces:
                return True
            found: dict[str, str] = {}
            for ident in [*self._names[uid]][:MOST_INSPECTED]:
                if self._clock() >= end:
                    break
                pid = parse_container_pid(self._ask(path, uid, f"/containers/{ident}/json", SECONDS))
                try:
                    found[os.readlink(f"{self._proc}/{pid}/ns/pid")] = ident
                except OSError:
                    continue
            self._spaces[uid] = found
        except (NodeError, OSError):
            return False
        return True

    def _forget(self, wanted: Mapping[int, object]) -> None:
        """So that what is kept of people does not grow."""
        if len(self._names) + len(self._next) > 2000:
            for kept in (self._names, self._spaces, self._next):
                for uid in [uid for uid in kept if uid not in wanted]:
                    del kept[uid]


def read_container_names(listed: object) -> dict[str, str]:
    """Names by id, of a daemon's list; what could be none is left out."""
    found: dict[str, str] = {}
    for one in listed[:MOST] if isinstance(listed, list) else []:
        ident, names = (one.get("Id"), one.get("Names")) if isinstance(one, dict) else (None, None)
        name = names[0] if isinstance(names, list) and names else None
        match = _NAME.match(name) if isinstance(name, str) else None
        if isinstance(ident, str) and _ID.match(ident):
            # guard: a daemon's name of a container is a name -> str(name)
            found[ident] = match.group(1) if match else ident[:SHORT]
    return found


def parse_container_pid(inspected: object) -> int:
    """The first process of a container, as its daemon says; 0 if that is not one."""
    state = inspected.get("State") if isinstance(inspected, dict) else None
    pid = state.get("Pid") if isinstance(state, dict) else None
    return pid if type(pid) is int and 0 < pid < 1 << 31 else 0

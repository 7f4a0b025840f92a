"""Whether what systemd was told is so: every GPU is tried from each unit that runs, and wherever else people run."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ..cgroups import cgroup_path, find_cgroup, populated, slice_owner
from ..errors import NodeError, in_words
from ..fields import FIRST_HUMAN_UID
from ..lookup import find_name, owner
from ..unit_status import SETTLE, Outcome
from .gate import Places, apply

#: Uids that systemd gives to services for as long as they run (DynamicUser=), and nobody's.
OF_SERVICES = range(61184, 65536)
LARGEST = 1 << 16  # bytes of a process's file


def of_people(closed: Iterable[str], exempt: Collection[int], proc: str = "/proc") -> dict[str, int]:
    """Cgroups with a process of somebody's that is in no person's slice and in no unit of ``closed``; one uid of each.

    ``exempt``: uids that are not kept out. In a person's slice everybody is kept out whom that person's list keeps out.
    """
    units = set(closed)
    people: dict[int, bool] = {}
    found: dict[str, int] = {}
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        try:
            uid = _uid(f"{proc}/{name}/status")
            if uid is None or uid < FIRST_HUMAN_UID or uid in exempt or uid in OF_SERVICES:
                continue
            if uid not in people:
                people[uid] = find_name(uid) is not None
            with open(
                f"{proc}/{name}/cgroup",
                encoding="ascii",
                errors="replace",  # guard: what somebody calls a cgroup of theirs stops nothing
            ) as stream:
                path = cgroup_path(stream.read(LARGEST)) or "/"
        except OSError:
            continue  # it has ended
        if people[uid] and slice_owner(path) is None and not units & set(path.split("/")):
            found.setdefault(path, uid)
    return found


def _uid(path: str) -> int | None:
    """The real uid of a process (proc_pid_status(5))."""
    with open(
        path,
        encoding="utf-8",
        errors="replace",  # guard: a process's name that is not a text stops nothing
        newline="\n",  # guard: nobody is taken for root by what they call their process
    ) as stream:
        for line in stream:
            if line.startswith("Uid:\t"):
                return int(line.split()[1])
    return None


NAME = "gpuadmin-proof"
PATIENCE = 5.0  # seconds for a trial: in a frozen cgroup it would not end
SPARED = "/proc/self/oom_score_adj"


def opens(cgroup: str, paths: Sequence[str], seconds: float = PATIENCE) -> list[str]:
    """Those of ``paths`` that a process of root's in this cgroup may open, to read or to write. Raises OSError where it
    cannot be tried, or not in so many seconds.

    access(2) asks the kernel the same question as open(2), of the same program of the cgroup's, and wakes no GPU. As
    root only the cgroup can say no. The process is in a cgroup of its own below, where nobody else can put one.
    """
    there = [path for path in paths if os.path.exists(path)]
    own = os.path.join(cgroup, NAME)
    try:
        os.mkdir(own, 0o700)
    except FileExistsError:
        pass  # a run that was killed left it
    try:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        child = os.fork()
        if child == 0:
            try:
                _spare()
                os.write(os.open(os.path.join(own, "cgroup.procs"), os.O_WRONLY | os.O_CLOEXEC), b"0")
                # guard: what can only be read, or only be written, is open -> all
                found = bytes(48 + any(os.access(path, way) for way in (os.R_OK, os.W_OK)) for path in there)
                os.write(writer, b"." + found)
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb", buffering=0) as stream:
            try:
                answer = _answer(stream.fileno(), len(there) + 1, seconds)
            finally:
                os.kill(child, signal.SIGKILL)  # it has ended, or it hangs
                _reap(child)
    finally:
        try:
            os.rmdir(own)
        except OSError:
            pass  # the child is just leaving; the next proof uses it again
    if len(answer) != len(there) + 1:  # guard: what could not be tried is not closed
        raise OSError(0, f"no process could be put into {cgroup}")
    return [path for path, letter in zip(there, answer[1:]) if letter == 49]


def _spare() -> None:
    """Have the kernel end others: of a slice whose owner fills their memory with small processes, a trial would be the
    largest, and what was not tried counts as open."""
    try:
        # guard: nobody has a trial ended by using up their memory -> b"0"
        os.write(os.open(SPARED, os.O_WRONLY | os.O_CLOEXEC), b"-1000")
    except OSError:
        pass  # in a container root may not; it is tried all the same


def _answer(reader: int, length: int, seconds: float) -> bytes:
    """What a process has written until it ended, or until the time is over."""
    answer, end = b"", time.monotonic() + seconds
    while len(answer) < length:
        # guard: a trial that hangs holds up nobody -> None
        left = max(0.0, end - time.monotonic())
        if not select.select([reader], [], [], left)[0]:
            raise OSError(0, f"no answer in {seconds:.0f} s")
        data = os.read(reader, length)
        if not data:
            break
        answer += data
    return answer


def _reap(child: int) -> None:
    """Wait for a process that was killed, but not for one that the kernel does not let go."""
    end = time.monotonic() + 1.0
    while (
        os.waitpid(child, os.WNOHANG)[0] == 0
        and time.monotonic() < end  # guard: a process that the kernel does not let go holds up nobody
    ):
        time.sleep(0.001)  # waitpid(2) has no deadline


def prove(
    places: Places,
    every: Sequence[str],
    wanted: Mapping[str, list[str] | None],
    told: Collection[str],
    outcome: Outcome,
    last: float,
) -> list[str]:
    """Try every GPU from each of these units that runs, and return those where it is not as it should be. What may be
    opened and was not granted is a problem. ``last``: until when there is time, by monotonic().

    A list that was told before and is not in force (systemd was started again, somebody changed a unit) is told once
    more. systemd answers before it has put a list in force: what is not right yet is tried again.
    """
    wrong = []
    for unit, allow in wanted.items():
        if allow is None:
            continue
        # an empty list keeps nobody out: whoever looks after the node can open them all
        granted = {one.partition(" ")[0] for one in allow} or set(every)
        found = _tried(places, unit, every, granted, last)
        if found and unit not in told:  # guard: a gate that somebody opened is closed again
            apply(places, unit, allow, outcome)
        end = min(time.monotonic() + SETTLE, last)  # of its own: what is wrong with one is said of no other
        while found and time.monotonic() < end:
            time.sleep(0.02)  # systemd tells nobody that it has done it
            found = _tried(places, unit, every, granted, last)
        if found:
            wrong.append(unit)
        outcome.problems += found
    return wrong


def _tried(places: Places, unit: str, every: Sequence[str], granted: Collection[str], end: float) -> list[str]:
    """What is wrong with a unit; nothing where it does not run. ``end``: until when there is time, by monotonic()."""
    try:
        path = find_cgroup(unit, places.cgroups) or _elsewhere(places, unit)
        if path is None or not populated(path):
            return []
        seconds = min(PATIENCE, end - time.monotonic())
        if seconds <= 0:  # guard: what there was no time to try is not closed
            return [f"{unit}: whether its gate is closed was not tried: the trials of others took too long"]
        can = set(opens(path, every, seconds))
    except FileNotFoundError:
        return []  # it has just ended
    except (NodeError, OSError) as error:
        return [f"{unit}: whether its gate is closed could not be tried: {in_words(error)}"]
    closed = {one for one in every if one in granted and os.path.exists(one)} - can
    wrong = [
        *(f"{unit}: {one} can be opened, and is not granted" for one in sorted(can - set(granted))),
        *(f"{unit}: {one} is granted, and cannot be opened" for one in sorted(closed)),
    ]
    # the last one may have left meanwhile: systemd then takes the list away, and the cgroup stays because of the trial
    # guard: a unit that was left meanwhile is not wrong -> wrong
    return wrong if wrong and populated(path) else []


def elsewhere_open(
    places: Places,
    every: Sequence[str],
    wanted: Iterable[str],
    exempt: Collection[int],
    end: float,
    granted: Callable[[str, int], set[str]],
) -> list[str]:
    """GPUs that can be opened where people run outside of all these units: something else starts programs for them.
    ``exempt``: uids that are not kept out. ``granted``: the files that a person may open in a cgroup that is not a unit
    of theirs."""
    problems = []
    for cgroup, uid in sorted(of_people(wanted, exempt, places.proc).items()):
        path = next((one for base in places.cgroups if os.path.isdir(one := base + cgroup)), None)
        if path is None:
            if not cgroup.isascii():  # guard: a cgroup that is not found by its name is not closed
                problems.append(
                    f"{cgroup}: whether GPUs are closed to {owner(uid)} there is not known: it has an odd name"
                )
            continue  # any other has just ended
        try:
            can = opens(path, every, min(PATIENCE, end - time.monotonic()))
        except FileNotFoundError:
            continue  # it has just ended
        except (NodeError, OSError) as error:  # guard: where it cannot be tried whether people are kept out, it is told
            problems.append(f"{cgroup}: whether GPUs are closed to {owner(uid)} there is not known: {in_words(error)}")
            continue
        wrong = sorted(set(can) - granted(cgroup, uid))
        # guard: where people run and no gate is, it is told
        problems += [f"{cgroup}: {one} can be opened: {owner(uid)} runs there, and it has no gate" for one in wrong]
    return problems


def _elsewhere(places: Places, unit: str) -> str | None:
    """The cgroup of a service that an admin has put into another slice."""
    if not unit.endswith(".service"):
        return None
    done = places.command(("systemctl", "show", "--property=ControlGroup", "--value", unit))
    name = done.stdout.strip().lstrip("/")
    paths = [os.path.join(base, name) for base in places.cgroups if name]
    return next((path for path in paths if os.path.isdir(path)), None)

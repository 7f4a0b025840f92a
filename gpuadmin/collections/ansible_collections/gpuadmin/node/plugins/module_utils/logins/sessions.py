"""Ending what people still run on a host, containers included, and making sure that nothing of theirs is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gpuadmin.common.records.people import UserReport
from gpuadmin.common.text import counted

from .. import cgroups
from ..files import sync_directory, unlink_if_present
from ..people import Person, owner
from ..report import Reports
from ..run import Runner, run_command
from . import terminals

GENTLE = 10.0  # seconds that processes have to go after SIGTERM
PATIENCE = 30.0  # seconds that processes have to go after SIGKILL
POLL = 0.3
LOOKS, BETWEEN = 6, 0.1  # nobody has anything left when so many looks, so many seconds apart, find nothing
AT_ONCE = 16  # people whose sessions are ended at the same time


@dataclass(frozen=True)
class Process:
    pid: int
    uid: int
    command: str
    state: str


@dataclass
class Plan(Reports[UserReport]):
    """``status``: ended (there was something), ok (there was nothing), conflict (something is left)."""

    KEY = "sessions"


def processes(proc: str = "/proc") -> list[Process]:
    """All processes with their real uid (proc_pid_status(5)); those that have ended but were not waited for are not."""
    found = []
    # The newest first: what forks and ends all the time has gone by when its turn comes after all others.
    for name in reversed(os.listdir(proc)):
        if not name.isdigit():
            continue
        try:
            with open(f"{proc}/{name}/status", encoding="utf-8", errors="replace", newline="\n") as stream:
                fields = {}
                for line in stream:
                    key, _, value = line.partition(":\t")
                    fields[key] = value
                    # of most nothing below Uid is asked for: of many processes that is most of the time
                    if key == "Uid" and fields.get("State", "?")[:1] not in "ZX":
                        break
            threads = int(fields.get("Threads", 0))
            uids = [int(one) for one in fields["Uid"].split()]
        except (OSError, KeyError, ValueError):
            continue  # it ended while we looked
        state = fields.get("State", "?")[:1]
        others = threads > 1  # guard: who ended their first thread alone still runs the others -> False
        if state not in "ZX" or others:
            uid = next((one for one in uids if one >= 1000), uids[0])
            found.append(Process(int(name), uid, fields.get("Name", "?").strip(), state))
    return found[::-1]


def of_people(people: Sequence[Person], found: Sequence[Process]) -> dict[str, list[Process]]:
    """Who runs what, a person's containers included: their processes have subordinate ids."""
    mine: dict[str, list[Process]] = {one.name: [] for one in people}
    for process in found:
        person = owner(people, process.uid)
        if person is not None:
            mine[person.name].append(process)
    return mine


def _commands(mine: Sequence[Process]) -> str:
    counts: dict[str, int] = {}
    for process in mine:
        counts[process.command] = counts.get(process.command, 0) + 1
    names = [name if count == 1 else f"{count} × {name}" for name, count in sorted(counts.items())]
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def compute(people: Sequence[Person], found: Sequence[Process], linger: Sequence[str]) -> Plan:
    """Decide from who runs what. Nobody else is looked at."""
    plan = Plan()
    mine = of_people(people, found)
    for one in people:
        entry = plan.entries[one.name] = UserReport("ok")
        if one.name in linger:
            entry.operations.append("end linger")
        if mine[one.name]:
            count = len(mine[one.name])
            entry.operations.append(f"end {counted(count, 'process', 'processes')} ({_commands(mine[one.name])})")
        if entry.operations:
            entry.status = "ended"
    return plan


@dataclass(frozen=True)
class Host:
    """Where things are, and how commands are run; tests give others."""

    linger: str = "/var/lib/systemd/linger"
    run: Runner = run_command
    processes: Callable[[], list[Process]] = processes
    gentle: float = GENTLE
    patience: float = PATIENCE
    cgroups: str = cgroups.MOUNT

    def lingering(self) -> list[str]:
        return sorted(os.listdir(self.linger)) if os.path.isdir(self.linger) else []


def converge(
    people: Sequence[Person], *, message: str = "", grace: float = 0, check: bool = False, host: Host | None = None
) -> Plan:
    """End what these people run (unless ``check``), and return the plan.

    ``grace``: seconds between the message on everybody's terminals and the end; it ends early if nobody is left.
    """
    host = host or Host()
    plan = compute(people, host.processes(), host.lingering())
    if check or not plan.operations:
        return plan
    if message and grace > 0:
        terminals.tell(message)
        _wait(people, host, grace)
    ending = [one for one in people if plan.entries[one.name].status == "ended"]
    _ask(ending, host)
    with ThreadPoolExecutor(AT_ONCE) as pool:  # people whose services do not stop for minutes keep few others waiting
        list(pool.map(lambda one: _end(one, host), ending))
    if os.path.isdir(host.linger):
        sync_directory(host.linger)
    _kill_rest(people, host)
    left = of_people(people, host.processes())
    for name, mine in left.items():
        if mine:
            stuck = " (the kernel does not let them go; reboot the host)" if any(p.state == "D" for p in mine) else ""
            plan.entries[name].status = "conflict"
            plan.entries[name].problem = f"still runs {_commands(mine)}{stuck}"
    return plan


def _wait(people: Sequence[Person], host: Host, seconds: float) -> bool:
    """Whether nothing of these people is left before the time is over."""
    deadline = time.monotonic() + seconds
    while any(of_people(people, host.processes()).values()):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)  # nothing tells when processes end that are not its children
    return True


def commands(person: Person) -> list[tuple[str, ...]]:
    """What systemd is asked for one person. Their user manager and all containers live in their slice."""
    return [
        ("loginctl", "disable-linger", person.name),
        ("loginctl", "terminate-user", str(person.uid)),
        ("systemctl", "stop", f"user@{person.uid}.service"),
        ("systemctl", "kill", "--signal=SIGKILL", f"user-{person.uid}.slice"),
    ]


def _ask(people: Sequence[Person], host: Host) -> None:
    """Let processes end by themselves, so that they can save. Whoever forks faster than that is ended by the kernel."""
    for mine in of_people(people, host.processes()).values():
        for process in mine:
            _signal(process, people, signal.SIGTERM)
    _wait(people, host, host.gentle)


def _end(person: Person, host: Host) -> None:
    """First without asking anybody: logind answers nothing for half a minute while a fork bomb runs."""
    unlink_if_present(os.path.join(host.linger, person.name))
    cgroups.kill(person.uid, host.cgroups)  # guard: a fork bomb does not delay its own end
    for command in commands(person):
        host.run(command)  # one that fails has nothing to end; what counts is what is left


def _kill_rest(people: Sequence[Person], host: Host) -> None:
    """Kill what is left one by one, until nothing is, or the patience is over: what forks is met again."""
    deadline, empty = time.monotonic() + host.patience, 0
    while True:
        rest = [process for mine in of_people(people, host.processes()).values() for process in mine]
        # guard: what forks and ends while one looks is in no single look -> 0 if rest else LOOKS
        empty = 0 if rest else empty + 1
        if empty == LOOKS or time.monotonic() > deadline:
            return
        for process in rest:
            _signal(process, people, signal.SIGKILL)
        time.sleep(POLL if rest else BETWEEN)  # those that are killed need a moment to end


def _signal(process: Process, people: Sequence[Person], number: signal.Signals) -> None:
    """Send a signal to one process, sure that its number has not been given to another one meanwhile."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        # guard: the uid of a process is looked at again before it gets a signal -> True
        if owner(people, os.stat(f"/proc/{process.pid}").st_uid) is not None or _uid(process.pid) == process.uid:
            signal.pidfd_send_signal(handle, number)
    except OSError:
        pass
    finally:
        os.close(handle)


def _uid(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace", newline="\n") as stream:
            for line in stream:
                if line.startswith("Uid:"):
                    return next((int(one) for one in line.split()[1:] if int(one) >= 1000), None)
    except OSError:
        pass
    return None


def counts(people: Sequence[Person], found: Sequence[Process]) -> Mapping[str, int]:
    """How many processes each person has; people without any are left out."""
    return {name: len(mine) for name, mine in of_people(people, found).items() if mine}

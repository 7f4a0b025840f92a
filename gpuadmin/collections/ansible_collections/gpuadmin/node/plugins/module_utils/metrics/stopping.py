"""Stopping what holds a GPU unused, or without a grant: decided elsewhere, looked at again here, process by process.

Whose a process is, and what it has open, is what the kernel says (owners.py, devices.py). A process is held by a pidfd
from before it is looked at until it is ended: its number may be another's by then. Whatever is not known keeps.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Literal

from gpuadmin.common.records.gpus import Ended
from gpuadmin.common.records.gpus import HeldGpu as Target
from gpuadmin.common.samples import of_text

from ..diagnosis import docker
from ..errors import NodeError, in_words
from . import granting, measured
from .containers import Names
from .devices import Key, Scanner, has_open, nodes
from .freezing import frozen
from .gpu_holders import holdings, list_pids
from .mapper import LATE, Places, find_capability_device
from .owners import Owners, Process, identify, parents
from .record import Device, Record
from .record import read as read_record
from .running import seconds_since_boot

SCAN = 30.0  # seconds for a round through all processes
PATIENCE = 10  # seconds from being asked to end to being ended
CONTAINERS = 60.0  # seconds for all containers of one person on one GPU
AFTERWARDS = 2.0  # seconds in which what is begun again by itself has opened the GPU
UNUSED, UNGRANTED, JOB = "unused", "ungranted", "job_unused"
#: Why somebody's hold is to end, by the metric that says since when it is so.
WHY = {f"gpuadmin_gpu_{why}_since_timestamp_seconds": why for why in (UNUSED, UNGRANTED, JOB)}


@dataclass
class Outcome:
    """What became of one. ``status``: stopped, would stop, gone (nothing holds it now) or kept, and why."""

    status: Literal["stopped", "would stop", "gone", "kept"]
    why: str = ""
    processes: int = 0
    containers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Seen:
    """One look: who owns each process, which devices it has open and which it uses, as the driver lists it, whose
    processes are not all known, and all devices."""

    processes: Mapping[int, Process]
    opened: Mapping[int, Set[str]]
    used: Mapping[int, Set[str]]
    incomplete: Collection[int]
    listed: Sequence[Device]


class Stopper:
    """``text``: what the collector has written; ``stop``: has a person's daemon stop a container."""

    def __init__(
        self,
        places: Places | None = None,
        owners: Owners | None = None,
        text: Callable[[], str] = measured.measured,
        stop: Callable[[str, int, str, int, float], None] = docker.stop_container,
        patience: int = PATIENCE,
        names: Names | None = None,
    ) -> None:
        self._places, self._owners = places or Places(), owners or Owners()
        self._names = Names(proc=self._places.proc) if names is None else names
        self._text, self._stop, self._patience = text, stop, patience

    def run(self, targets: Sequence[Target], *, check: bool) -> list[Outcome]:
        """An outcome for each target. Raises NodeError or OSError if nothing is known of this host's GPUs."""
        self._owners.refresh()
        since = self._since()
        seen = self._look()
        refused = {one: why for one in targets if (why := self._refused(one, since, seen))}
        agreed = [one for one in targets if one not in refused]
        # the collector saw them, and what nobody granted cannot be opened again
        hidden = [one for one in agreed if one.why == UNGRANTED and not _find_processes(one, seen)]
        if hidden:  # guard: who is faster than a look keeps nothing
            seen = self._look_still({one.uid for one in hidden})
        found = {
            one: self._decided(
                one,
                agreed,  # guard: a GPU that was used since they were told may be used -> targets
                seen,
            )
            for one in agreed
        }
        if not check:
            self._end(agreed, found, seen)
        return [Outcome("kept", refused[one]) if one in refused else found[one] for one in targets]

    def _since(self) -> dict[tuple[str, str, str], int]:
        return {
            (WHY[one.name], one.labels.get("uuid", ""), one.labels.get("user", "")): int(one.value)
            for one in of_text(self._text(), {})
            if one.name in WHY
        }

    def _refused(self, target: Target, since: Mapping[tuple[str, str, str], int], seen: Seen) -> str:
        """Why a target is left alone; empty if it is not."""
        if self._owners.name(target.uid) != target.user:  # guard: a uid that is another's on the node is not ended
            return f"uid {target.uid} is not {target.user}'s on this host"
        now = since.get((target.why, target.uuid, target.user))
        if (
            now is None
            # guard: what was used since it was told is not ended
            or now != target.since
        ):
            done = "granted" if target.why == UNGRANTED else "used"
            return f"it was {done} or let go since then, or nobody knows"
        if (
            target.why == UNGRANTED
            # guard: who was granted a GPU since the collector looked is not ended
            and not self._lacks(target, seen)
        ):
            return "they need no grant for it, or have one by now"
        return ""

    def _lacks(self, target: Target, seen: Seen) -> bool:
        """Whether they hold it without a grant, by what the host has recorded now."""
        granted = granting.look(time.time(), self._places.state, self._places.gate)
        device = next((one for one in seen.listed if one.uuid == target.uuid), None)
        return (
            granted is not None and device is not None and granted.lacks(target.uid, target.user, device, seen.listed)
        )

    def _look(self, all_of: Collection[int] = ()) -> Seen:
        """Every process that holds a GPU, or is listed by the driver, with the devices that it holds.

        ``all_of``: of whom each process is looked at, however many there are.
        """
        record = read_record(self._places.record)
        now = seconds_since_boot()
        if (
            record is None
            # guard: an old answer of the driver ends nothing
            # guard: an answer of the driver's from before the boot ends nothing -> not now - record.seconds <= LATE
            or not 0 <= now - record.seconds <= LATE
        ):
            raise NodeError("what the driver says is old, so who uses which GPU is not known; nothing is stopped")
        # guard: a GPU of which the driver does not say who uses it
        if any(one.processes is None for one in record.devices):
            raise NodeError("the driver does not say of each GPU who uses it; nothing is stopped")
        available = nodes(self._places.dev)
        scanner = Scanner(self._owners, self._places.proc, all_of=all_of)
        end = time.monotonic() + SCAN
        while scanner.rounds < 2:  # a round ends where the next begins
            if time.monotonic() > end:  # guard: a look at all processes that does not end
                raise NodeError(f"looking through all processes took more than {SCAN:g} s; nothing is stopped")
            scanner.step(available, 1.0)
        processes = self._identified(record, scanner.held)
        found = holdings(
            record.devices, scanner.held, processes,
            caps=lambda device: find_capability_device(self._places.capabilities, device),
            has_open=lambda pid, device: has_open(pid, device.minor, available, self._places.proc),
            container=lambda process: str(process.pid),  # so that each process is seen by itself
            until=record.seconds,
            opened=True,
        )  # fmt: skip
        opened: dict[int, set[str]] = {}
        used: dict[int, set[str]] = {}
        for (uuid, _user, pid), one in found.items():
            if pid:  # nobody knows whose the others are
                opened.setdefault(int(pid), set()).add(uuid)
                if one.pids:
                    used.setdefault(int(pid), set()).add(uuid)
        return Seen(processes, opened, used, scanner.incomplete, record.devices)

    def _identified(self, record: Record, held: Mapping[int, frozenset[Key]]) -> dict[int, Process]:
        """By pid; each with its container, which only the daemon knows where it has no cgroup of its own."""
        found = ((pid, identify(pid, self._owners, self._places.proc)) for pid in list_pids(record.devices, held))
        processes = {pid: process for pid, process in found if process is not None}
        host = os.readlink(f"{self._places.proc}/self/ns/pid")
        self._names.learn(processes.values(), host)
        # guard: a container that has no cgroup of its own is asked of its daemon -> processes
        return {pid: replace(one, container=self._names.ident(one, host)) for pid, one in processes.items()}

    def _decided(self, target: Target, agreed: Iterable[Target], seen: Seen) -> Outcome:
        """What would be ended for a target: nothing that holds another GPU as well, which may be in use.

        What nobody granted ends in any case: a process that has it open cannot be told to close it.
        """
        mine = {
            one.uuid
            for one in agreed
            if one.uid == target.uid  # guard: a GPU that is idle for somebody else may be used
        }
        pids = _find_processes(target, seen)
        if not pids:
            return Outcome("gone")
        boot = time.time() - seconds_since_boot()
        if target.why != UNGRANTED and any(
            # guard: what was begun since its person was told is not ended
            boot + seen.processes[pid].started > target.notified
            for pid in pids
        ):
            return Outcome("kept", "they have begun something on it since they were told")
        shared = {seen.processes[pid].container for pid in pids} - {""}
        if target.uid in seen.incomplete:  # guard: a container of which not all is known is not stopped
            shared = set()
        for pid, process in seen.processes.items():
            if (
                pid in pids
                # guard: a container in which another GPU is used is not stopped
                or (process.uid == target.uid and process.container in shared)
            ):
                others = _devices(target, seen).get(pid, frozenset()) - mine
                if target.why == UNGRANTED:
                    if others and pid not in pids:  # guard: a container in which a granted GPU is used is not stopped
                        shared.discard(process.container)
                elif others:  # guard: what holds another GPU as well is not ended
                    return Outcome("kept", f"what holds it holds {', '.join(sorted(others))} as well")
        return Outcome("would stop", processes=len(pids), containers=sorted(one[:12] for one in shared))

    def _end(self, agreed: Sequence[Target], found: dict[Target, Outcome], seen: Seen) -> None:
        """End it, and see whether it has ended. They were not told about anything begun meanwhile."""
        wanted = [one for one in agreed if found[one].status == "would stop"]
        if not wanted:
            return
        # whose parent has ended by then are nobody's children
        ending = {target: self._ending(target, seen) for target in wanted}
        held = {target: self._end_holding(target, ending[target], found[target].containers, seen) for target in wanted}
        time.sleep(AFTERWARDS)  # so that anything that starts again by itself has the GPU open when the host looks
        try:
            after = self._look()
            for target in wanted:
                if target.why == UNGRANTED:  # a look may miss those who hand it on, as it may have found them before
                    # guard: who is faster than a signal keeps nothing -> after
                    after = self._end_still(target)
        except (NodeError, OSError) as error:
            for target in wanted:  # what was ended is reported as ended, even if other things are unknown by now
                found[target].status = "kept" if held[target] else "stopped"
                found[target].why = f"whether anything else holds it is not known: {in_words(error)}"
            return
        for target in wanted:
            # what begins again by itself has it open before the driver is asked again; who only watched goes on
            watched = _having(target, seen.opened, seen) - ending[target]
            # guard: who computes by now holds it, also if they only watched before -> set()
            using = _having(target, after.used, after)
            left = sum(not _has_ended(pid) for pid in (_having(target, after.opened, after) - watched) | using)
            found[target].status = "kept" if left else "stopped"
            found[target].why = f"{left} of their processes hold it now" if left else ""

    def _look_still(self, uids: Collection[int]) -> Seen:
        """A look while the processes of these people stand still."""
        with ExitStack() as stack:
            for uid in uids:
                stack.enter_context(frozen(uid, self._places.cgroups))
            return self._look(uids)

    def _end_still(self, target: Target) -> Seen:
        """End what holds it while its person's processes stand still, and return what is there afterwards."""
        with frozen(target.uid, self._places.cgroups):
            seen = self._look({target.uid})
            self._end_holding(target, _find_processes(target, seen), (), seen, (signal.SIGKILL,))
        return self._look()

    def _end_holding(
        self,
        target: Target,
        pids: Collection[int],
        containers: Collection[str],
        seen: Seen,
        signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGKILL),
    ) -> int:
        """Containers by their person's own daemon; then whatever is still there, by signals to these very processes.
        Returns how many of them have not ended. ``containers``: those that are stopped, by how their ids begin.
        """
        with ExitStack() as stack:
            handles: dict[int, int] = {}
            for pid in sorted(pids):
                try:
                    handle = os.pidfd_open(pid)
                except OSError:
                    continue  # it has ended
                stack.callback(os.close, handle)
                # by now the number may be another's; from here on the handle is of whoever is looked at
                now, then = identify(pid, self._owners, self._places.proc), seen.processes[pid]
                # guard: a number that became another's is not ended -> True
                if now is not None and replace(now, container=then.container) == then:
                    handles[pid] = handle
            inside = {seen.processes[pid].container for pid in handles} - {""}
            self._end_containers(target, {one for one in inside if one[:12] in containers})
            for number in signals:
                left = [handle for handle in handles.values() if not _ended(handle)]
                for handle in left:
                    try:
                        signal.pidfd_send_signal(handle, number)
                    except ProcessLookupError:
                        pass
                end = time.monotonic() + self._patience
                while any(not _ended(handle) for handle in left) and time.monotonic() < end:
                    time.sleep(0.05)  # several handles are waited for
            return sum(not _ended(handle) for handle in handles.values())

    def _ending(self, target: Target, seen: Seen) -> set[int]:
        """What holds it, and its children that only have it open: what they have of their parent's keeps its memory on
        the GPU after it has ended, and nobody could tell any more whose it is.
        """
        pids = _find_processes(target, seen)
        for pid in _having(target, seen.opened, seen) - pids:
            # guard: a child that uses another GPU goes on -> True
            if not seen.used.get(pid) and pids & {*parents(pid, self._places.proc)}:
                pids = pids | {pid}
        return pids

    def _end_containers(self, target: Target, containers: Collection[str]) -> None:
        """Ask their daemon for so long in all: others wait for their turn, and its processes are known anyway."""
        path, end = f"/run/user/{target.uid}/docker.sock", time.monotonic() + CONTAINERS
        for container in sorted(containers):
            left = end - time.monotonic()
            if left <= 0:  # guard: a silent daemon is not waited for once for each container
                return
            try:
                self._stop(path, target.uid, container, self._patience, min(self._patience + 5.0, left))
            except (NodeError, OSError):  # guard: a daemon that does not answer ends no run
                continue  # their daemon does not answer, or not properly


def _devices(target: Target, seen: Seen) -> Mapping[int, Set[str]]:
    """What counts as holding: using it, or, without a grant, having it open, since that can use it at any time."""
    return seen.opened if target.why == UNGRANTED else seen.used


def _find_processes(target: Target, seen: Seen) -> set[int]:
    """That person's processes that hold it."""
    return _having(target, _devices(target, seen), seen)


def _having(target: Target, devices: Mapping[int, Set[str]], seen: Seen) -> set[int]:
    return {
        pid
        for pid, uuids in devices.items()
        if target.uuid in uuids
        and pid in seen.processes
        and seen.processes[pid].uid == target.uid  # guard: another person's processes are not ended
    }


def _has_ended(pid: int) -> bool:
    """Whether nothing of a process runs any more: the driver listed it a moment ago, and its parent may keep it."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return _ended(handle)
    finally:
        os.close(handle)


def _ended(handle: int) -> bool:
    """pidfd_open(2): it can be read from when its process has ended."""
    asked = select.poll()  # select(2) takes no number above 1023, and somebody may have more processes than that
    asked.register(handle, select.POLLIN)
    return bool(asked.poll(0))


def report(targets: Sequence[Target], *, check: bool, stopper: Stopper | None = None) -> list[Ended]:
    """What became of each hold."""
    outcomes = (stopper or Stopper()).run(targets, check=check)
    return [
        Ended(one.user, one.uuid, outcome.status, outcome.why, outcome.processes, outcome.containers)
        for one, outcome in zip(targets, outcomes)
    ]

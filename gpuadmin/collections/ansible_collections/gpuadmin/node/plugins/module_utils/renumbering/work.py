"""Renumbering a host: look, close, carry out. What is under way goes on where a kill or a power cut left it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from gpuadmin.common.text import counted

from ..accounts.converge import Host
from ..accounts.databases import Databases
from ..errors import NodeError
from ..files import flocked, sync_filesystem
from ..gpus import grants
from ..logins.sessions import BETWEEN, LOOKS, of_people, processes
from ..people import Person
from ..root.guard import open_root
from . import accounts, jobs, journal, trees
from .crawl import crawl
from .decide import Decided, Numbers, Wanted, decide, unmoved
from .ids import TEMPORARY, Move, Phases, phases
from .ids import Mapping as Ids
from .inode import Tally, Task
from .journal import Journal, Renumbering
from .special import Specials

MOST_WORKERS = 16
PASSES = 6  # over one tree in one phase: the last one must find nothing to do
LOCK_SECONDS = 30.0

#: Given phase, number of the tree, and whether a whole walk has just been there: one walk, which changes.
Sweep = Callable[[int, int, bool], Tally]


@dataclass(frozen=True)
class Plan:
    """What becomes what, by uid and gid."""

    uid: Phases
    gid: Phases

    @classmethod
    def of(cls, people: Sequence[Renumbering]) -> Plan:
        whole = Journal(tuple(people))
        return cls(phases(whole.moves("uid"), "uid"), phases(whole.moves("gid"), "gid"))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The phases that there are."""
        return (1, 2) if self.uid.second or self.gid.second else (1,)

    def task(self, phase: int, tree: str, apply: bool, again: bool = False) -> Task:
        uid, gid = (self.uid.first, self.gid.first) if phase == 1 else (self.uid.second, self.gid.second)
        if apply:
            theirs = [[*kind.first, *kind.second] for kind in (self.uid, self.gid)]
            quiet = [
                Ids({*moves, *(Move(one.new, one.new, one.count) for one in moves)}) for moves in map(_unique, theirs)
            ]
            return Task(phase, tree, Ids(uid), Ids(gid), True, quiet_uids=quiet[0], quiet_gids=quiet[1], again=again)
        taken = [[Move(TEMPORARY.start, TEMPORARY.start, len(TEMPORARY)), *_new(kind)] for kind in (self.uid, self.gid)]
        return Task(phase, tree, Ids(uid), Ids(gid), False, Ids(taken[0]), Ids(taken[1]))


def _unique(moves: Sequence[Move]) -> list[Move]:
    return list({one.old: one for one in moves}.values())


def _new(kind: Phases) -> list[Move]:
    """The ids that somebody gets, and nobody of the plan has now."""
    old = list(kind.first)
    got = [one for one in (*kind.first, *kind.second) if one.new < TEMPORARY.start]
    return [
        Move(one.new, one.new, one.count) for one in got if not any(other.meets(one.new, one.count) for other in old)
    ]


def workers() -> int:
    return min(MOST_WORKERS, len(os.sched_getaffinity(0)))


def sweeps(
    plan: Plan, found: Sequence[trees.Tree], handles: Sequence[int], state: str
) -> Callable[[int, int, bool, bool], Tally]:
    """How a host's trees are walked: by phase, number, whether it is walked again, and whether to change."""

    def sweep(phase: int, number: int, again: bool, apply: bool) -> Tally:
        task = plan.task(phase, found[number].key, apply, again)
        specials = journal.specials(state, phase, found[number].key) if apply else Specials()
        lock = os.open(
            os.path.join(journal.directory(state), "links"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        ) if apply else -1  # fmt: skip
        try:
            tally = crawl(handles[number], task, specials, workers=workers(), lock=lock)
            known = {(one.path, one.inode) for several in specials.known.values() for one in several}
            if apply and not tally.changed and not tally.failed and tally.kept < len(known):
                lost = counted(len(known) - tally.kept, "file")
                words = f"{lost} with a setuid bit, a capability or chattr's flags: not found again"
                tally.words.append(f"{words}; {journal.directory(state)}/specials says what they had")
            return tally
        finally:
            for one in (specials.handle, lock):
                if one >= 0:
                    os.close(one)

    return sweep


def drive(
    names: Sequence[str],
    numbers: Sequence[int],
    sweep: Sweep,
    done: Callable[[], set[str]],
    mark: Callable[[str], None],
    after: Sequence[tuple[str, Callable[[], None]]],
    sync: Callable[[int], None],
) -> list[Tally]:
    """Each phase over all trees, then the other steps; each until it is done, none that is done again.

    A tree has had a phase when a whole walk found nothing to do, after all before it reached the disk. Raises NodeError
    with what could not be changed: nothing that follows is done then.
    """
    tallies = []
    for phase in numbers:
        failures: list[str] = []
        for number, name in enumerate(names):
            step = f"{phase} {name}"
            if step in done():
                continue
            again = False
            for _ in range(PASSES):
                tally = sweep(phase, number, again)
                again = not tally.failed
                tallies.append(tally)
                if not tally.changed and not tally.failed:
                    sync(number)  # guard: a tree is on the disk before it counts as done
                    mark(step)
                    break
            else:
                failures += tally.words or [f"{name}: changes while it is looked at"]
        if failures:  # guard: no second phase and no account before the first phase is whole
            raise NodeError(
                "not everything could change hands, and their accounts stay closed: " + "; ".join(failures[:10])
            )
    for step, act in after:
        if step not in done():
            act()
            mark(step)
    return tallies


def busy(people: Sequence[Renumbering], host: Host, looks: int = LOOKS) -> dict[str, str]:
    """Who still has processes (containers and a lingering manager are such), or a grant of GPUs, in words."""
    persons = []
    for one in people:
        starts = [(start, count) for file, start, _, count in one.subids if file == "subuid"]
        first, count = starts[0] if starts else (0, 0)
        persons.append(Person(one.name, one.old, range(first, first + count)))
    found: dict[str, str] = {}
    for _ in range(looks):
        for name, theirs in of_people(persons, processes()).items():
            if theirs:
                words = ", ".join(sorted({one.command for one in theirs})[:5])
                found[name] = f"runs {words} ({counted(len(theirs), 'process', 'processes')})"
        if found:
            break
        time.sleep(BETWEEN)  # what forks and ends all the time is missed by one look
    for grant in grants.read(host.path(host.state), host.path("run/gpuadmin"))[0]:
        for one in people:
            if grant.uid in (one.old, one.new):  # guard: a grant of GPUs is not another's after a renumbering
                found.setdefault(one.name, "has a grant of GPUs: gpuadmin revoke ends it")
    return found


def _measured(people: Sequence[Renumbering]) -> dict[str, Any]:
    """What people have in the trees of this host, and what is in the way there."""
    plan = Plan.of(people)
    table = trees.observe()
    report: dict[str, Any] = {
        "trees": {}, "network": list(table.network), "unknown": list(table.unknown),
        "notes": [], "taken": {}, "seen": 0,
    }  # fmt: skip
    with trees.seen(table.local) as handles:
        for tree, handle in zip(table.local, handles):
            tally = crawl(handle, plan.task(1, tree.key, False), Specials(), workers=workers())
            report["seen"] += tally.seen
            theirs = {}
            for one in people:
                uids, gids = Ids(one.moves("uid")), Ids(one.moves("gid"))
                parts = [value for uid, value in tally.uids.items() if uids(uid) is not None]
                parts += [value for gid, value in tally.gids.items() if gids(gid) is not None]
                if parts:
                    theirs[one.name] = [sum(part[0] for part in parts), sum(part[1] for part in parts)]
            if theirs:
                report["trees"][tree.point] = theirs
                if trees.is_read_only(handle) and tree.point != "/":
                    report["notes"].append(f"{tree.point} is read-only: what is there keeps the old ids")
            if tally.acls:
                report["notes"].append(f"{tree.point}: {counted(tally.acls, 'ACL')} name them")
            if tally.snapshots:
                report["notes"].append(
                    f"{tree.point}: {counted(tally.snapshots, 'read-only subvolume')} not looked at: what is in them "
                    "keeps the old ids"
                )
            report["notes"] += [f"{tree.point}: {words}" for words in tally.words]
            for key, (entries, size) in tally.taken.items():
                counts = report["taken"].setdefault(key, [0, 0, tree.point])
                counts[0] += entries
                counts[1] += size
    return report


def look(wanted: Sequence[Wanted], numbers: Numbers, host: Host, *, measure: bool) -> dict[str, Any]:
    """What a host has of them, and what would happen; nothing is changed."""
    under_way = journal.under_way(host.path(host.state))
    decided = decide(wanted, accounts.texts(host), numbers)
    people = decided.people if under_way is None else under_way.people
    report: dict[str, Any] = {
        "has": dict(decided.has), "problems": dict(decided.problems),
        "people": {one.name: [one.old, one.new] for one in people},
        "under_way": under_way is not None,
        "busy": {} if under_way is not None else busy(_known(wanted, decided), host, 1),
        "written": jobs.written(host.root, [one.old for one in people]),
    }  # fmt: skip
    if measure and people and under_way is None:
        report.update(_measured(people))
        for key, (entries, _size, point) in sorted(report.pop("taken").items()):
            kind, number = key.split(" ")
            for one in people:
                if any(move.new <= int(number) < move.new + move.count for move in one.moves(kind)):
                    words = f"{key} has {counted(entries, 'entry', 'entries')} of {point} already"
                    report["problems"].setdefault(one.name, f"{words}: chown or delete them first")
    return report


def _known(wanted: Sequence[Wanted], decided: Decided) -> list[Renumbering]:
    """Everybody who was asked for and has an account here, whether it changes or not."""
    moving = {one.name: one for one in decided.people}
    return [
        moving.get(one.name) or Renumbering(one.name, decided.has[one.name], one.uid)
        for one in wanted
        if one.name in decided.has
    ]


def close(
    wanted: Sequence[Wanted], expected: Mapping[str, Sequence[int]], numbers: Numbers, host: Host
) -> tuple[Journal, dict[str, str]]:
    """Keep those out who are renumbered, and see that they run nothing. Returns the journal, and who is in the way.

    ``expected``: name → uid before and after, as it was decided and confirmed. Where somebody is in the way nothing
    stays changed. Raises NodeError where the host is not as it was then.
    """
    state = host.path(host.state)
    with flocked(host.path("run/gpuadmin/renumber.lock"), LOCK_SECONDS):
        found = journal.under_way(state)
        if found is not None:
            return found, {}
        _give_up(host)  # somebody was closed, and then the controller was killed
        decided: Decided = decide(wanted, accounts.texts(host), numbers)
        people = (*decided.people, *unmoved(expected, decided.has))
        now = {one.name: [one.old, one.new] for one in people}
        asked = {name: list(pair) for name, pair in expected.items()}
        if now != asked or decided.problems:  # guard: what was confirmed is what is done
            raise NodeError(f"is not as it was decided ({_differs(now, asked, decided)}); run it again")
        made = Journal(people, accounts.as_they_are(host, people))
        if not made.people:
            return made, {}
        Plan.of(made.people)
        journal.begin(state, made)
        accounts.close(host, made)
        found_busy = busy(made.people, host)
        if found_busy:  # guard: nobody is renumbered while they run something
            accounts.reopen(host, made)
            journal.end(state)
        return made, found_busy


def _differs(now: Mapping[str, list[int]], asked: Mapping[str, list[int]], decided: Decided) -> str:
    for name in sorted({*now, *asked}):
        if now.get(name) != asked.get(name):
            return decided.problems.get(name) or f"{name}: {now.get(name)} and not {asked.get(name)}"
    return "; ".join(f"{name} {words}" for name, words in decided.problems.items())


def give_up(host: Host) -> bool:
    """Open what was closed, if nothing else has begun. Returns whether it was so."""
    with flocked(host.path("run/gpuadmin/renumber.lock"), LOCK_SECONDS):
        return _give_up(host)


def _give_up(host: Host) -> bool:
    state = host.path(host.state)
    found = journal.load(state)
    if found is None or journal.BEGUN in journal.done(state):  # guard: what was begun is not given up
        return False
    accounts.reopen(host, found)
    journal.end(state)
    return True


def reopen(host: Host) -> list[str]:
    """Let those in again whose renumbering has ended, here and on all other hosts. Returns their names."""
    state = host.path(host.state)
    with flocked(host.path("run/gpuadmin/renumber.lock"), LOCK_SECONDS):
        found = journal.load(state)
        if found is None:
            return []
        if journal.WHOLE not in journal.done(state):  # guard: no account is opened whose files are half another's
            raise NodeError("has not ended renumbering: run it again")
        accounts.reopen(host, found)
        journal.end(state)
        return [one.name for one in found.people]


def carry_out(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Do what is under way on this host, but leave the accounts closed: other hosts may have their files, and an id
    that is somebody else's there. Raises NodeError with what is in the way; again goes on.
    """
    host = Host(arguments.get("root", "/"), arguments.get("state", Host.state))
    state = host.path(host.state)
    begun = time.monotonic()
    with flocked(host.path("run/gpuadmin/renumber.lock"), LOCK_SECONDS):
        found = journal.load(state)
        if found is None:
            return {"people": {}, "changed": 0, "seen": 0, "words": [], "seconds": 0.0}
        in_the_way = busy(found.people, host)
        if in_the_way:  # guard: nobody is renumbered who has begun something meanwhile
            raise NodeError("; ".join(f"{name} {words}" for name, words in in_the_way.items()))
        journal.mark(state, journal.BEGUN)
        plan = Plan.of(found.people)
        places = arguments.get("trees")  # of tests
        local = trees.observe().local if places is None else tuple(trees.Tree(one, one) for one in places)
        if not any(one.changes for one in found.people):
            local = ()
        passed: list[Tally] = []
        view: AbstractContextManager[list[int]] = trees.seen(local)
        with view as handles:
            base = sweeps(plan, local, handles, state)

            def sweep(phase: int, number: int, again: bool) -> Tally:
                if not trees.is_read_only(handles[number]):
                    return base(phase, number, again, True)
                if local[number].point != "/":
                    return Tally()  # the plan has said so
                seen = base(phase, number, False, False)
                if not (seen.uids or seen.gids or seen.acls):
                    return Tally(seen=seen.seen)
                with open_root(host.root, state=state, run=host.path("run/gpuadmin")):
                    return base(phase, number, again, True)

            def sync(number: int) -> None:
                if not trees.is_read_only(handles[number]):
                    sync_filesystem(f"/proc/{os.getpid()}/fd/{handles[number]}")

            passed = drive(
                [one.key for one in local], plan.numbers, sweep,
                lambda: journal.done(state), lambda step: journal.mark(state, step),
                [("accounts", lambda: accounts.renumber(host, found)),
                 ("memory", lambda: accounts.remembered(host, found.people)), ("jobs", lambda: _jobs(host, found))],
                sync,
            )  # fmt: skip
        journal.mark(state, journal.WHOLE)
    words = [one for tally in passed for one in tally.words if not tally.failed]
    return {
        "people": {one.name: [one.old, one.new] for one in found.people},
        "changed": sum(one.changed for one in passed), "seen": sum(one.seen for one in passed),
        "words": words[:20], "seconds": round(time.monotonic() - begun, 3),
    }  # fmt: skip


def _jobs(host: Host, found: Journal) -> None:
    data = Databases(accounts.texts(host))
    groups = {}
    for one in found.people:
        fields = data.passwd.get(one.name)
        if fields is not None:
            groups[int(fields[2])] = int(fields[3])
    jobs.correct_at_jobs(host.root, groups)
    if host.root == "/" and groups:
        jobs.reread()

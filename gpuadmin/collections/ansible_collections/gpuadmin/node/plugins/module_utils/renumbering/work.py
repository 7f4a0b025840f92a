"""Renumbering a host: close the accounts, arm the next boot, carry it out there before anybody can be, open.

A boot that was cut off is gone on with by the next one.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from ..accounts.converge import Host
from ..accounts.databases import Databases
from ..errors import NodeError, in_words
from ..files import flocked, sync_filesystem
from ..root.guard import open_root
from . import accounts, jobs, journal, journals, special, trees
from .crawl import crawl
from .decide import Decided, Numbers, Wanted, decide, unmoved
from .journal import Journal
from .limits import lifted
from .looking import not_begun
from .running import find_grants
from .sweeping import Plan, drive, workers
from .task import Tally

LOCK_SECONDS = 30.0
DROP_CACHES = "/proc/sys/vm/drop_caches"


def close(
    wanted: Sequence[Wanted], expected: Mapping[str, Sequence[int]], numbers: Numbers, host: Host
) -> tuple[Journal, dict[str, str]]:
    """Keep those out who are renumbered. Returns the journal, and who is in the way.

    ``expected``: name → uid before and after, as it was decided and confirmed. Where somebody is in the way nothing
    stays changed. Raises NodeError where the host is not as it was then.
    """
    state = host.path(host.state)
    with flocked(host.path("run/gpuadmin/renumber.lock"), LOCK_SECONDS):
        journal.load_own(state)
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
        there = tuple(one.point for one in trees.observe().local if not one.volatile)
        made = Journal(people, accounts.as_they_are(host, people), trees=there)
        if not made.people:
            return made, {}
        Plan.of(made.people)
        granted = find_grants(made.people, host)
        if not granted:
            journal.begin(state, made)
            accounts.close(host, made)
        return made, granted


def arm(host: Host) -> list[str]:
    """Have the next boot carry out what accounts were closed for. Returns whose ids change."""
    state = host.path(host.state)
    with flocked(host.path("run/gpuadmin/renumber.lock"), LOCK_SECONDS):
        found = journal.load_own(state)
        if found is None or journal.BEGUN in journal.done(state):
            return []
        journal.mark(state, journal.BEGUN)
        return [one.name for one in found.people]


def _differs(now: Mapping[str, list[int]], asked: Mapping[str, list[int]], decided: Decided) -> str:
    for name in sorted({*now, *asked}):
        if now.get(name) != asked.get(name):
            return decided.problems.get(name) or f"{name}: {now.get(name)} and not {asked.get(name)}"
    return "; ".join(f"{name} {words}" for name, words in decided.problems.items())


def give_up(host: Host) -> list[str]:
    """Open what was closed, if nothing else has begun. Returns whom."""
    with flocked(host.path("run/gpuadmin/renumber.lock"), LOCK_SECONDS):
        return _give_up(host)


def _give_up(host: Host) -> list[str]:
    found = not_begun(host)
    if found is None:
        return []
    accounts.reopen(host, found)
    journal.end(host.path(host.state))
    return [one.name for one in found.people]


def reopen(host: Host) -> list[str]:
    """Let those in again whose renumbering has ended, here and on all other hosts. Returns their names."""
    state = host.path(host.state)
    with flocked(host.path("run/gpuadmin/renumber.lock"), LOCK_SECONDS):
        found = journal.load_own(state)
        if found is None:
            return []
        if journal.WHOLE not in journal.done(state):  # guard: no account is opened whose files are half another's
            raise NodeError("has not ended renumbering: run it again")
        accounts.reopen(host, found)
        journal.end(state)
        return [one.name for one in found.people]


def main(host: Host | None = None) -> int:
    """What the boot unit runs. Its failure is kept for whoever asks: the boot goes on, and those people stay out."""
    problem, host = "", host or Host()
    try:
        done = carry_out(host)
        print(f"{done['changed']} of {done['seen']} entries changed hands in {done['seconds']} s")
    except (NodeError, OSError) as error:
        problem = in_words(error)
    except Exception as error:  # whatever it is, the admin must hear of it
        traceback.print_exc()
        problem = f"{type(error).__name__}: {error}"
    if journal.load(host.path(host.state)) is not None:
        journal.set_problem(host.path(host.state), problem)
    if problem:
        print(f"Error: {problem}", file=sys.stderr)
    return 1 if problem else 0


def carry_out(host: Host, places: Sequence[str] | None = None) -> dict[str, Any]:
    """Do what the next boot was armed for, but leave the accounts closed: other hosts may have their files, and an id
    that is somebody else's there. ``places``: the trees, in tests. Raises NodeError with what is in the way; the next
    boot goes on.
    """
    state = host.path(host.state)
    begun = time.monotonic()
    with flocked(host.path("run/gpuadmin/renumber.lock"), LOCK_SECONDS):
        found = journal.under_way(state)
        # guard: only a boot that was armed changes ids -> journal.load(state) is None
        if found is None or journal.WHOLE in journal.done(state):
            return {"changed": 0, "seen": 0, "seconds": 0.0}
        granted = find_grants(found.people, host)
        if granted:
            raise NodeError("; ".join(f"{name} {words}" for name, words in granted.items()))
        local = trees.observe().local if places is None else tuple(trees.Tree(one, one) for one in places)
        missing = set(found.trees) - {one.point for one in local} if places is None else set()
        if missing:  # guard: ids change when every file system is there that had something
            points = ", ".join(sorted(missing))
            raise NodeError(f"{points}: not mounted at boot, before anybody is here; write it into /etc/fstab")
        passed = _pass(host, found, local)
        special.forget(journal.directory(state))
        journal.mark(state, journal.WHOLE)
    return {
        "changed": sum(one.changed for one in passed), "seen": sum(one.seen for one in passed),
        "seconds": round(time.monotonic() - begun, 3),
    }  # fmt: skip


def _pass(host: Host, found: Journal, local: Sequence[trees.Tree]) -> list[Tally]:
    """All phases and steps of it, in all trees."""
    state = host.path(host.state)
    directory, plan = journal.directory(state), Plan.of(found.people)
    if not any(one.changes for one in found.people):
        local = ()
    cut_off = special.take_over(directory)
    with trees.seen(local) as handles, lifted([one for one in handles if not trees.is_read_only(one)], directory):

        def walk(phase: int, number: int, apply: bool) -> Tally:
            key = local[number].key
            known = special.of_tree(cut_off, phase, key) if apply else {}
            task = plan.task(phase, key, apply)
            return crawl(handles[number], task, workers=workers(), known=known, directory=directory)

        def sweep(phase: int, number: int, apply: bool) -> Tally:
            if not trees.is_read_only(handles[number]):
                return walk(phase, number, apply)
            if local[number].point != "/":  # guard: what is mounted read-only stays so
                return Tally()  # the plan has said so
            seen = walk(phase, number, False)
            # guard: a read-only root is opened only where somebody's files are in it, and not for a look
            if not apply or not (seen.uids or seen.gids or seen.acls):
                return seen
            with open_root(host.root, state=state, run=host.path("run/gpuadmin")):
                return walk(phase, number, True)

        def renew(number: int) -> None:
            if not trees.is_read_only(handles[number]):
                # guard: what has changed hands is on the disk before it is looked at again
                sync_filesystem(f"/proc/{os.getpid()}/fd/{handles[number]}")
            _drop_caches()  # guard: a look says what the disk has, and not memory

        return drive(
            [one.key for one in local], plan.numbers, sweep,
            lambda: journal.done(state), lambda step: journal.mark(state, step),
            lambda phase: _rename(host, plan, phase),
            [("accounts", lambda: accounts.renumber(host, found)),
             ("memory", lambda: accounts.remembered(host, found.people)), ("jobs", lambda: _jobs(host, found))],
            renew,
        )  # fmt: skip


def _rename(host: Host, plan: Plan, phase: int) -> None:
    journals.rename(host.root, plan.uids(phase))


def _drop_caches() -> None:
    """Forget inodes that memory has (proc(5)): after an error it may have an owner that the disk does not."""
    with open(DROP_CACHES, "w", encoding="ascii") as stream:
        stream.write("2")


def _jobs(host: Host, found: Journal) -> None:
    data = Databases(accounts.texts(host))
    groups = {}
    for one in found.people:
        fields = data.passwd.get(one.name)
        if fields is not None:
            groups[int(fields[2])] = int(fields[3])
    jobs.correct_at_jobs(host.root, groups)

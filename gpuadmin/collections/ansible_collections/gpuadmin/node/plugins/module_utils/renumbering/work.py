"""Renumbering a host: close, carry out, open. It continues where a kill or a power cut left it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ..accounts.converge import Host
from ..accounts.databases import Databases
from ..errors import NodeError
from ..files import flocked, sync_filesystem
from ..root.guard import open_root
from . import accounts, jobs, journal, keys, trees
from .decide import Decided, Numbers, Wanted, decide, unmoved
from .journal import Journal
from .looking import not_begun
from .running import busy
from .sweeping import Plan, drive, sweeps
from .task import Tally

LOCK_SECONDS = 30.0


def close(
    wanted: Sequence[Wanted], expected: Mapping[str, Sequence[int]], numbers: Numbers, host: Host
) -> tuple[Journal, dict[str, str]]:
    """Keep those out who are renumbered, and see that they run nothing. Returns the journal, and who is in the way.

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


def carry_out(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Do what is under way on this host, but leave the accounts closed: other hosts may have their files, and an id
    that is somebody else's there. Raises NodeError with what is in the way; again goes on.
    """
    host = Host(arguments.get("root", "/"), arguments.get("state", Host.state))
    state = host.path(host.state)
    begun = time.monotonic()
    with flocked(host.path("run/gpuadmin/renumber.lock"), LOCK_SECONDS):
        found = journal.load_own(state)
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
                [("keys", lambda: _keys(host, found)), ("accounts", lambda: accounts.renumber(host, found)),
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


def _keys(host: Host, found: Journal) -> None:
    if host.root == "/":
        keys.let_go(found)


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

"""Renumbering a host: close the accounts, arm the next boot, change the ids in it before anybody can log in, open.

After a cut the next boot goes on.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.databases import Databases
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked, sync_filesystem
from ansible_collections.gpuadmin.node.plugins.module_utils.root.guard import open_root

from . import accounts, jobs, journal, journals, renaming, special, trees
from .crawl import crawl
from .decide import Decided, Numbers, Wanted, decide, unmoved
from .journal import Journal
from .limits import lifted
from .looking import not_begun
from .running import find_grants
from .sweeping import Plan, drive, workers
from .task import Tally

LOCK_SECONDS = 30.0
MOUNT_SECONDS = 90.0  # systemd's own patience with a disk
DROP_CACHES = "/proc/sys/vm/drop_caches"


def close(
    wanted: Sequence[Wanted], expected: Mapping[str, Sequence[int]], numbers: Numbers, host: Host, homes: str = ""
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
        decided: Decided = decide(wanted, accounts.texts(host), numbers, renaming.find(wanted, host, homes))
        known = {one.name for one in decided.people}
        people = (*decided.people, *(one for one in unmoved(expected, decided.has) if one.name not in known))
        now = {one.name: [one.old, one.new] for one in people}
        asked = {name: list(pair) for name, pair in expected.items()}
        if now != asked or decided.problems:  # guard: what was confirmed is what is done
            raise NodeError(f"is not as it was decided ({_differs(now, asked, decided)}); run it again")
        points = tuple(one.point for one in trees.observe().local if one.changeable and not one.volatile)
        made = Journal(people, accounts.as_they_are(host, people), points=points)
        if not made.people:
            return made, {}
        Plan.of(made.people)  # raises where too many change places: nobody is closed for that
        granted = find_grants(made.people, host)
        if not granted:
            journal.begin(state, made)
            accounts.close(host, made)
        return made, granted


def arm(host: Host) -> None:
    """Have the next boot carry out what accounts were closed for, and forget what an earlier boot could not do."""
    state = host.path(host.state)
    with flocked(host.path("run/gpuadmin/renumber.lock"), LOCK_SECONDS):
        if journal.load_own(state) is not None:
            journal.set_problem(state, "")
            journal.mark(state, journal.BEGUN)


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
            _keep_room(host)
    if problem:
        print(f"Error: {problem}", file=sys.stderr)
    return 1 if problem else 0


def _keep_room(host: Host) -> None:
    """Have room for the next boot, if the disk has any."""
    try:
        journal.keep_room(host.path(host.state))
    except OSError as error:
        print(f"Note: {in_words(error)}", file=sys.stderr)


def carry_out(host: Host, places: Sequence[str] | None = None) -> dict[str, Any]:
    """Change the ids that this boot was armed for, and leave the accounts closed: on another host a new id may still be
    somebody else's. ``places``: the trees, in tests. Raises NodeError with what is in the way; the next boot goes on.
    """
    state = host.path(host.state)
    begun = time.monotonic()
    with flocked(host.path("run/gpuadmin/renumber.lock"), LOCK_SECONDS):
        found = journal.under_way(state)
        # guard: only a boot that was armed changes ids -> journal.load(state) is None
        if found is None or journal.WHOLE in journal.done(state):
            return {"changed": 0, "seen": 0, "seconds": 0.0}
        journal.use_room(state)
        granted = find_grants(found.people, host)
        if granted:
            raise NodeError("; ".join(f"{name} {words}" for name, words in granted.items()))
        if places is None:
            local, missing = _mounted(found.points)
        else:
            local, missing = tuple(trees.Tree(one, one) for one in places), set()
        if missing:  # guard: ids change when every file system is there that had something, and can be written
            points = ", ".join(sorted(missing))
            raise NodeError(
                f"{points}: not mounted at boot, before anybody is here, or read-only; look at /etc/fstab and the disk"
            )
        passed = _pass(host, found, local)
        special.forget(journal.directory(state))
        journal.mark(state, journal.WHOLE)
    return {
        "changed": sum(one.changed for one in passed), "seen": sum(one.seen for one in passed),
        "seconds": round(time.monotonic() - begun, 3),
    }  # fmt: skip


def _mounted(points: Sequence[str]) -> tuple[tuple[trees.Tree, ...], set[str]]:
    """What is mounted, and what of these points is missing. With `nofail` local-fs.target waits for no disk, and an
    automount only comes when it is asked for (systemd.mount(5))."""
    end = time.monotonic() + MOUNT_SECONDS
    while True:
        local = trees.observe().local
        missing = set(points) - {one.point for one in local if one.changeable}
        if not missing or time.monotonic() >= end:
            return local, missing
        for point in missing:
            os.path.exists(os.path.join(point, "."))
        time.sleep(0.2)  # asked again: a mount that another makes wakes nobody


def _pass(host: Host, found: Journal, local: Sequence[trees.Tree]) -> list[Tally]:
    """Do what is not done yet of all phases and steps, in all trees. Returns what each walk that changed did."""
    state = host.path(host.state)
    directory, plan = journal.directory(state), Plan.of(found.people)
    if not found.moves("uid") and not found.moves("gid"):  # names alone
        local = ()
    cut_off = special.take_over(directory)
    with trees.seen(local) as handles, ExitStack() as stack:
        for handle in handles:
            trees.open_own(handle)
        stack.enter_context(lifted([one for one in handles if not trees.is_read_only(one)], directory))

        def walk(phase: int, number: int, apply: bool) -> Tally:
            key = local[number].key
            known = special.select_tree(cut_off, phase, key) if apply else {}
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
            lambda phase: journals.rename(host.root, plan.uids(phase)),
            [("accounts", lambda: accounts.renumber(host, found)),
             ("memory", lambda: accounts.remembered(host, found.people)), ("jobs", lambda: _jobs(host, found)),
             ("files", lambda: _renamed(host, found))],
            renew,
        )  # fmt: skip


def _renamed(host: Host, found: Journal) -> None:
    if any(one.was for one in found.people):
        with open_root(host.root, state=host.path(host.state), run=host.path("run/gpuadmin")):
            renaming.carry_out(host, found.people)


def _drop_caches() -> None:
    """Have the kernel forget inodes (proc(5)): after an error, memory may show an owner that the disk lacks."""
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

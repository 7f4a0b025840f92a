"""Renumbering a host: close the accounts, arm the next boot, change the ids in it before anybody can log in, open.

After a cut the next boot goes on.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked, sync_filesystem
from ansible_collections.gpuadmin.node.plugins.module_utils.root.guard import open_root

from . import accounts, jobs, journal, journals, renaming, special, trees
from .closing import let_in
from .crawl import crawl
from .decide import Decided, Numbers, Wanted, decide, unmoved
from .ids import Mapping as Ids
from .journal import Journal, Plan
from .limits import lifted
from .looking import not_begun
from .running import find_grants
from .sweeping import run_phases
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
        found = journal.load_own(state)
        if found is not None and found.step != journal.CLOSED:
            return found, {}
        _give_up(host)  # somebody was closed, and then the controller was killed
        decided: Decided = decide(wanted, accounts.texts(host), numbers, renaming.find(wanted, host, homes))
        known = {one.name for one in decided.people}
        people = (*decided.people, *(one for one in unmoved(expected, decided.has) if one.name not in known))
        now = {one.name: [one.old, one.new] for one in people}
        asked = {name: list(pair) for name, pair in expected.items()}
        if now != asked or decided.problems:  # guard: what was confirmed is what is done
            raise NodeError(f"is not as it was decided ({_differs(now, asked, decided)}); run it again")
        points = tuple(one.point for one in trees.find_local().local if one.changeable)
        made = Journal(people, accounts.read_fields(host, people), points=points, plan=Plan.of(people))
        if not made.people:
            return made, {}
        granted = find_grants(made.people, host)
        if not granted:
            journal.begin(state, made)
            accounts.close(host, made)
        return made, granted


def arm(host: Host) -> None:
    """Have the next boot carry out what accounts were closed for, and forget what an earlier boot could not do."""
    state = host.path(host.state)
    with flocked(host.path("run/gpuadmin/renumber.lock"), LOCK_SECONDS):
        found = journal.load_own(state)
        if found is not None and found.step != journal.WHOLE:
            journal.save(state, replace(found, step=journal.ARMED, problem=""))


def _differs(now: Mapping[str, list[int]], asked: Mapping[str, list[int]], decided: Decided) -> str:
    for name in sorted({*now, *asked}):
        if now.get(name) != asked.get(name):
            return decided.problems.get(name) or f"{name}: {now.get(name)} and not {asked.get(name)}"
    return "; ".join(f"{name} {words}" for name, words in decided.problems.items())


def give_up(host: Host, keep: Collection[str] = ()) -> list[str]:
    """Open what was closed, if nothing else has begun. Returns whom."""
    with flocked(host.path("run/gpuadmin/renumber.lock"), LOCK_SECONDS):
        return _give_up(host, keep)


def _give_up(host: Host, keep: Collection[str] = ()) -> list[str]:
    found = not_begun(host)
    return [] if found is None else let_in(host, found, {one.name for one in found.people} - set(keep))


def reopen(host: Host, keep: Collection[str] = ()) -> list[str]:
    """Let those in again whose renumbering has ended, here and on all other hosts. Returns their names.

    ``keep``: who stays out, because a file somewhere could not change hands.
    """
    state = host.path(host.state)
    with flocked(host.path("run/gpuadmin/renumber.lock"), LOCK_SECONDS):
        found = journal.load_own(state)
        if found is None:
            return []
        # guard: no account is opened whose files are half another's
        if found.step != journal.WHOLE:
            raise NodeError("has not ended renumbering: run it again")
        return let_in(host, found, {one.name for one in found.people} - {*keep, *found.kept})


def main(host: Host | None = None) -> int:
    """What the boot unit runs. Its failure is kept for whoever asks: the boot goes on, and those people stay out."""
    problem, host = "", host or Host()
    try:
        done = carry_out(host)
        print(f"{done['changed']} of {done['seen']} entries changed hands in {done['seconds']} s")
    except (NodeError, OSError) as error:
        problem = journal.shorten(in_words(error))
    except Exception as error:  # whatever it is, the admin must hear of it
        traceback.print_exc()
        problem = journal.shorten(f"{type(error).__name__}: {error}")
    found = journal.load(host.path(host.state))
    if found is not None:
        for name, words in found.kept.items():
            print(f"Error: {name} stays locked out: {words}", file=sys.stderr)
        if problem or found.kept:
            _keep_room(host)
        if problem:
            journal.save(host.path(host.state), replace(found, problem=problem))
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
    begun, tallies = time.monotonic(), []
    with flocked(host.path("run/gpuadmin/renumber.lock"), LOCK_SECONDS):
        found = journal.load_own(state)
        # guard: only a boot that was armed changes ids -> found is None
        if found is not None and found.step == journal.ARMED:
            journal.use_room(state)
            granted = find_grants(found.people, host, rest=found.rest)
            if granted:
                raise NodeError("; ".join(f"{name} {words}" for name, words in granted.items()))
            if places is None:
                local, missing = _mounted(found.points)
            else:
                local, missing = tuple(trees.Tree(one, one) for one in places), set()
            if missing:  # guard: ids change when every file system is there that had something
                points = ", ".join(sorted(missing))
                raise NodeError(
                    f"{points}: not mounted at boot, before anybody is here; look at /etc/fstab and the disk"
                )
            tallies = _change(host, found, local)
    return {
        "changed": sum(one.changed for one in tallies), "seen": sum(one.seen for one in tallies),
        "seconds": round(time.monotonic() - begun, 3),
    }  # fmt: skip


def _mounted(points: Sequence[str]) -> tuple[tuple[trees.Tree, ...], set[str]]:
    """What is mounted, and what of these points is missing. With `nofail` local-fs.target waits for no disk, and an
    automount only comes when it is asked for (systemd.mount(5))."""
    end = time.monotonic() + MOUNT_SECONDS
    while True:
        local = trees.find_local().local
        missing = set(points) - {one.point for one in local}
        if not missing or time.monotonic() >= end:
            return local, missing
        for point in missing:
            os.path.exists(os.path.join(point, "."))
        time.sleep(0.2)  # asked again: a mount that another makes wakes nobody


def _change(host: Host, found: Journal, local: Sequence[trees.Tree]) -> list[Tally]:
    """Do what is left of both phases in all trees, and then all else. Returns what each walk that changed did.

    What cannot change hands keeps those out whom it concerns; the plan is then what is left for the next boot.
    """
    state = host.path(host.state)
    directory = journal.directory(state)
    cut_off = special.take_over(directory)
    if found.plan == Plan():  # names alone
        local = ()
    with trees.detach(local) as handles, ExitStack() as stack:
        for handle in handles:
            trees.open_own(handle)
        stack.enter_context(lifted([one for one in handles if not trees.is_read_only(one)], directory))
        # guard: what is mounted read-only stays so -> set()
        fixed = {
            number
            for number, (tree, handle) in enumerate(zip(local, handles))
            if tree.point != "/"
            and trees.is_read_only(handle)  # the plan has said so
            # guard: who has files on a disk that came up read-only is kept out
            and not (tree.read_only and tree.point in found.points)
        }

        def walk(plan: Plan, phase: int, number: int, apply: bool) -> Tally:
            key = local[number].key
            known = special.select_tree(cut_off, phase, key) if apply else {}
            return crawl(handles[number], plan.task(phase, key, apply), known=known, directory=directory)

        def sweep(plan: Plan, phase: int, number: int, apply: bool) -> Tally:
            if number in fixed:
                return Tally()
            if not trees.is_read_only(handles[number]):
                return walk(plan, phase, number, apply)
            seen = walk(plan, phase, number, False)
            # guard: a read-only root is opened only where somebody's files are in it, and not for a look
            if local[number].point != "/" or not apply or not seen.stuck:
                return seen
            with open_root(host.root, state=state, run=host.path("run/gpuadmin")):
                return walk(plan, phase, number, True)

        def renew(number: int) -> None:
            if not trees.is_read_only(handles[number]):
                # guard: what has changed hands is on the disk before it is looked at again
                sync_filesystem(f"/proc/{os.getpid()}/fd/{handles[number]}")
            _drop_caches()  # guard: a look says what the disk has, and not memory

        def finish(phase: int, uids: Ids, left: Journal) -> None:
            journals.rename(host.root, uids)
            journal.save(state, left)
            if phase == 1:
                # what runs as somebody after a boot that was cut off has their new ids, and makes files of their own
                accounts.renumber(host, left)

        tallies, found = run_phases(found, [one.point for one in local], sweep, renew, finish)
        accounts.update_memory(host, found.people)
        jobs.correct_at_jobs(host.root, {one.new: one.new for one in found.people if one.account and one.changes})
        kept, renamed = dict(found.kept), [one for one in found.people if one.was and one.name not in found.kept]
        if renamed:
            with open_root(host.root, state=state, run=host.path("run/gpuadmin")):
                kept |= renaming.carry_out(host, renamed)
    if not kept:
        special.forget(directory)
    journal.save(state, replace(found, step=journal.WHOLE, kept=kept, problem=""))
    return tallies


def _drop_caches() -> None:
    """Have the kernel forget inodes (proc(5)): after an error, memory may show an owner that the disk lacks."""
    with open(DROP_CACHES, "w", encoding="ascii") as stream:
        stream.write("2")

"""One round through all places, the longest waiting first: one directory at a time, in a process of its own."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gpuadmin.common.text import listed

from ..btrfs import identity, newest_generation, open_directory, read_generation
from ..budget import Budget
from ..each import Failed, each
from ..errors import NodeError, in_words
from ..limits.amounts import OF_HOMES
from ..mounts import NETWORK, nearest, parse_mountinfo, read_mountinfo
from ..qgroups import DESK
from .changes import changed
from .records import Found, Place, Record, Records
from .shares import ENTRIES, SECONDS, Shares, alone
from .tree import ALL, Tree, measure

# SECONDS, ENTRIES: of one directory, or of one person where a place is divided by owner
PLACE = 36_000.0  # seconds for a place that is divided by owner; the unit ends after twice that
FRESH = 12 * 3600.0  # seconds
MOST = 20_000  # directories of a place
MEMORY = ("tmpfs", "ramfs")  # these are on no disk


@dataclass(frozen=True)
class Task:
    """A directory to measure, by its name in a place; empty for the place itself."""

    place: Place
    name: str


@dataclass(frozen=True)
class Done:
    """``problem``: why a directory was measured in part or not at all, or empty. ``place_failed``: a whole place."""

    path: str
    problem: str = ""
    place_failed: bool = False


def directories(place: Place) -> list[str]:
    """The directories of a place; of one that is divided by owner, the place itself. Raises NodeError, OSError.

    Where a node has no such place yet, there is nothing in it; where homes are not there, something is wrong.
    """
    if place.name != "homes" and not os.path.lexists(place.path):
        return []
    mount = nearest(os.path.realpath(place.path), parse_mountinfo(read_mountinfo()))
    # guard: a file server that is away is not asked for sizes -> mount is None
    if (
        mount is None
        or NETWORK.match(mount.fstype)
        or mount.fstype == "autofs"  # guard: what an automount would mount is not asked for sizes
    ):
        raise NodeError(f"{place.path} is on no disk of this host")
    if mount.fstype in MEMORY:
        return []
    if place.by_owner:
        return [""]
    with os.scandir(place.path) as entries:
        names = sorted(
            one.name for one in entries if one.is_dir(follow_symlinks=False) and one.name not in (OF_HOMES, DESK)
        )
    if len(names) > MOST:  # guard: a place of very many directories
        raise NodeError(f"{place.path} has more than {MOST} directories")
    return names


def unchanged(place: Place, names: Sequence[str], records: Records) -> set[str]:
    """Whose records still hold, because btrfs says that nothing below has changed."""
    top = open_directory(place.path)
    try:
        if read_generation(top) is None or place.by_owner:
            return set()
        facts = {}
        for name in names:
            try:
                facts[name] = os.stat(name, dir_fd=top, follow_symlinks=False)
            except FileNotFoundError:  # guard: a directory that went away meanwhile fails no place
                continue
        same = os.fstat(top).st_dev
        # a separate subvolume has its own generation; the root of each has the same inode
        number = {name: _number(name, top) if one.st_dev != same else one.st_ino for name, one in facts.items()}
        old = {name: records[place.path, name] for name in facts if (place.path, name) in records}
        old = {
            name: one
            for name, one in old.items()
            if one.generation
            and one.inode == number[name]  # guard: another directory of a name is not the one that was measured
        }
        old = {
            name: one
            for name, one in old.items()
            if not one.problem  # guard: a part is walked again
            and one.unowned is not None  # an earlier gpuadmin did not look for them
        }
        inner = {name: one for name, one in old.items() if facts[name].st_dev == same}
        newest = changed(top, min(one.generation for one in inner.values())) if inner else {}
        found = set()
        for name, one in old.items():
            if name in inner:
                last = None if newest is None else newest.get(os.fsencode(name), 0)
            else:
                last = _generation(name, top)
            # what changed in that very generation may have changed after it was looked at
            # guard: what has changed is walked again -> True
            # guard: what is not known to be unchanged is walked again -> last is None or last < one.generation
            if last is not None and last < one.generation:
                found.add(name)
        return found
    finally:
        os.close(top)


def _generation(name: str, at: int) -> int | None:
    try:
        handle = open_directory(name, at)
    except OSError:
        return None
    try:
        return read_generation(handle)
    finally:
        os.close(handle)


def _number(name: str, at: int) -> int:
    """That of a subvolume; 0 where it cannot be looked at."""
    try:
        handle = open_directory(name, at)
    except OSError:
        return 0
    try:
        return identity(handle, os.fstat(handle))
    finally:
        os.close(handle)


def measured(
    task: Task,
    leave_out: Callable[[bytes], bool],
    seconds: float = SECONDS,
    whose: Callable[[int], int] = alone,
) -> Record:
    """Measure one directory. Raises NodeError or OSError if it cannot be looked at at all."""
    began = time.time()
    path = os.path.join(task.place.path, task.name)
    top = open_directory(path)
    try:
        facts = os.fstat(top)
        number = identity(top, facts)
        generation = newest_generation(top) or 0
        many = task.place.by_owner
        budget = Budget(PLACE if many else seconds, math.inf if many else ENTRIES, setting=False)
        shares = Shares(whose, seconds, ENTRIES) if many else None
        tree = measure(top, budget, shares=shares, leave_out=leave_out, whose=whose)
    finally:
        os.close(top)
    return _record(
        tree,
        facts,
        began,
        number,
        0
        if tree.volumes  # guard: who has subvolumes of their own is always walked
        else generation,
    )


def _record(tree: Tree, facts: os.stat_result, began: float, number: int, generation: int) -> Record:
    people = {
        str(facts.st_uid if uid == ALL else uid): Found(used.size.bytes, used.size.inodes, used.largest, used.problem)
        for uid, used in tree.people.items()
    }
    return Record(people, began, began, number, generation, tree.problem, sorted(tree.unowned))


def measure_round(
    places: Sequence[Place],
    records: Records,
    seconds: float = SECONDS,
    now: Callable[[], float] = time.time,
    whose: Callable[[int], int] = alone,
) -> Iterator[Done]:
    """Bring ``records`` up to date; yield each directory when it is done, and each place that cannot be looked at.

    What is unchanged comes first, then what has waited longest; what was looked at in the last FRESH seconds is left as
    it is, so that a round that was cut off goes on. Nobody's directory keeps another from being measured, and nobody's
    files in a place of many keep those of others from it. ``whose(uid)``: the uid of the person whose files those are.
    """
    others = [one.path for one in places]
    waiting: list[Task] = []
    for place in places:
        try:
            names = directories(place)
            same = unchanged(place, names, records) if names else set()
        except (NodeError, OSError) as error:
            yield Done(place.path, in_words(error), place_failed=True)
            continue
        for gone in [key for key in records if key[0] == place.path and key[1] not in names]:
            del records[gone]
        for name in names:
            if name in same:
                records[place.path, name] = replace(records[place.path, name], when=now(), began=now())
            elif _key(Task(place, name)) not in records or now() - records[place.path, name].began >= FRESH:
                waiting.append(Task(place, name))
    for key in [key for key in records if key[0] not in {place.path for place in places}]:
        del records[key]
    waiting.sort(key=lambda task: records[_key(task)].began if _key(task) in records else 0.0)

    def look(task: Task) -> Record:
        return measured(task, partial(_is_other, os.path.join(task.place.path, task.name), others), seconds, whose)

    for task in waiting:
        limit = PLACE if task.place.by_owner else seconds
        ((_task, found),) = each(look, [task], 1, limit, grace=60.0)
        path = os.path.join(task.place.path, task.name)
        if isinstance(found, Failed):
            if _key(task) in records:
                # guard: what fails each time keeps nobody else from being measured
                records[_key(task)] = replace(records[_key(task)], began=now())
            yield Done(path, found.why)
        else:
            records[_key(task)] = found
            theirs = [f"uid {uid}: {one.problem}" for uid, one in found.people.items() if one.problem]
            yield Done(path, found.problem or listed(theirs))


def _key(task: Task) -> tuple[str, str]:
    return task.place.path, task.name


def _is_other(path: str, others: Sequence[str], below: bytes) -> bool:
    """Whether something below a place is a separate place (Docker's data in /local)."""
    return os.path.join(path, os.fsdecode(below)) in others

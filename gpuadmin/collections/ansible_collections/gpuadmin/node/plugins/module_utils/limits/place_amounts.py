"""Docker's data and scratch held to amounts: on btrfs a group of quotas for each place, and for subvolumes below it.

The quotas themselves are room.py's. Places that are directories, and other file systems, are told of.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from gpuadmin.common.text import counted, listed, size_words

from .. import btrfs, qgroups
from ..errors import NodeError, in_words
from ..fields import FIRST_HUMAN_UID, valid_name
from ..files import flocked
from ..mounts import nearest, parse_mountinfo, read_mountinfo
from . import records, room
from .amounts import DOCKER, RECORD, SCRATCH, Amounts, load
from .room import Kept, Places

MOST = 1000  # subvolumes of one person
#: What follows from a place that the kernel does not hold to its amount.
UNHELD = {
    DOCKER: "people are told their amounts, and nothing enforces them",
    SCRATCH: "nothing enforces amounts of scratch there",
}


@dataclass(frozen=True)
class Own:
    """Somebody's place for Docker's data or scratch, its subvolume, and all that are theirs; bytes at most."""

    path: str
    name: str
    id: int
    ids: frozenset[int]
    most: int

    @property
    def group(self) -> str:
        return qgroups.own_group(self.id)


@dataclass
class Disk:
    """A btrfs with quotas: the directories on it that have people's places, and the places."""

    directories: list[str] = field(default_factory=list)
    own: list[Own] = field(default_factory=list)


def hold(places: Places, wanted: Amounts | None = None, *, check: bool = False) -> Kept:
    """Bring the host to what is wanted, and remember it; None: to what is remembered."""
    if check or (wanted is None and load(places.state) is None):
        return _hold(places, wanted, check=check)
    with flocked(os.path.join(places.run, "locks", "amounts")):
        return _hold(places, wanted, check=False)


def follow(places: Places) -> list[str]:
    """For those who have just got a place: at once what else comes within a minute. Returns what failed."""
    if load(places.state) is None:
        return []
    kept = room.keep(places, None, check=False, patience=0)
    return [*kept.problems, *hold(places).problems]


def _hold(places: Places, given: Amounts | None, *, check: bool) -> Kept:
    held, before = Kept(), load(places.state)
    wanted = before if given is None else given
    if wanted is None:
        return held
    if given is not None:
        was = [] if before is None else before.words()
        words = wanted.words()
        held.done += [one for one in words if one not in was]
        if was and not words:
            held.done.append("nobody has an amount of the disks any more")
        if not check:
            records.record(os.path.join(places.state, RECORD), wanted if words else None)
    disks: dict[str, Disk] = {}
    whole = True
    for place in (DOCKER, SCRATCH):
        known = dict.fromkeys([*wanted.directories(place), *(() if before is None else before.directories(place))])
        for directory in filter(os.path.isdir, known):
            amounts = wanted if directory in wanted.directories(place) else Amounts()
            try:
                whole &= _look(place, directory, amounts, disks, held)
            except (NodeError, OSError) as error:
                held.problems.append(f"{directory}: no amount is in force: {in_words(error)}")
                whole = False
    for uuid, disk in disks.items():
        try:
            _hold_disk(uuid, disk, whole, held, check)
        except (NodeError, OSError) as error:
            held.problems.append(f"{listed(disk.directories)}: no amount is in force: {in_words(error)}")
    return held


def _look(place: str, data: str, amounts: Amounts, disks: dict[str, Disk], held: Kept) -> bool:
    """Add what one directory has to its disk; whether all of it could be looked at."""
    wanted = amounts.bounds(place)
    there = room.subvolume(data)
    if there is None:
        mount = nearest(data, parse_mountinfo(read_mountinfo()))
        kind = "another file system than btrfs" if mount is None else mount.fstype
        held.notes += [f"{data} is on {kind}: {UNHELD[place]}"] * wanted
        return True
    uuid, _id = there
    try:
        on, why = qgroups.enabled(uuid), "quotas of btrfs are off, since limits.disk_reserve is 0"
    except NodeError as error:
        on, why = False, str(error)
    if not on:
        held.notes += [f"{data}: {why}: {UNHELD[place]}"] * wanted
        return True
    own, plain, whole = _places(place, data, amounts, held) if wanted else ([], [], True)
    if plain:
        held.notes.append(f"{data}: {listed(plain)}: made before limits.{place}, so {UNHELD[place]}")
    disk = disks.setdefault(uuid, Disk())
    disk.directories.append(data)
    disk.own += own
    return whole


def _hold_disk(uuid: str, disk: Disk, whole: bool, held: Kept, check: bool) -> None:
    groups = qgroups.own_groups(uuid)
    members = qgroups.all_members(disk.directories[0]) if disk.own or groups else {}
    desk, theirs = _desk(disk.directories[0]), {id: one.name for one in disk.own for id in one.ids}
    for one in disk.own:
        try:
            _bring(one, uuid, desk, members.get(one.group, set()), theirs, held, check)
        except (NodeError, OSError) as error:  # guard: an amount that fails keeps nobody else from theirs
            held.problems.append(f"{one.path}: the amount is not in force: {in_words(error)}")
    own = {one.group for one in disk.own}
    # guard: whose place cannot be looked at keeps their amount -> sorted(set(groups) - own)
    gone = sorted(set(groups) - own) if whole else []
    names = {
        qgroups.own_group(one.id): f"{directory}/{name}"
        for directory in (disk.directories if gone else ())
        for name, one in btrfs.listing(directory).items()
    }
    for group in gone:
        held.done += [f"{names[group]}: no amount any more"] if group in names else []
        if not check:
            qgroups.unmake(desk, group)


def _desk(data: str) -> str:
    try:
        return qgroups.desk(btrfs.holder(data))
    except NodeError:  # its subvolume is not mounted as a whole, so that nothing is kept for root on it
        return data


def _places(place: str, data: str, amounts: Amounts, held: Kept) -> tuple[list[Own], list[str], bool]:
    """Whose place is a subvolume, who has a directory, and whether all could be looked at."""
    own, plain, whole = [], [], True
    for name in sorted(os.listdir(data)):
        most = amounts.most(place, name) if valid_name(name) else None
        path = os.path.join(data, name)
        if most is None or not os.path.isdir(path) or os.path.islink(path):
            continue
        # guard: what root keeps beside people's scratch has no amount
        if place == SCRATCH and os.lstat(path).st_uid < FIRST_HUMAN_UID:
            continue
        try:
            found = _own(path, name, most, held)
        except (NodeError, OSError) as error:  # guard: a place that cannot be looked at keeps nobody else from theirs
            held.problems.append(f"{path}: the amount is not in force: {in_words(error)}")
            whole = False
            continue
        if found is None:
            plain.append(name)
        else:
            own.append(found)
    return own, plain, whole


def _own(path: str, name: str, most: int, held: Kept) -> Own | None:
    """Somebody's by its name: its owner can give it away in a namespace. None: it is not a subvolume."""
    top = btrfs.inspect(path)
    if top is None:
        return None
    # guard: who has ever more subvolumes holds up nobody -> [id for id, _uid in room.below(path)]
    below = [id for id, _uid in islice(room.below(path), MOST + 1)]
    if len(below) > MOST:
        held.notes.append(f"{path}: {name} has more than {MOST} subvolumes: not all of them count")
    # guard: a subvolume that somebody makes is not a way around their amount -> frozenset({top.id})
    ids = frozenset({top.id, *below[:MOST]})
    return Own(path, name, top.id, ids, most)


def _bring(
    one: Own, uuid: str, desk: str, members: set[int], theirs: Mapping[int, str], held: Kept, check: bool
) -> None:
    """``theirs``: whose each subvolume is."""
    now = qgroups.group(uuid, one.group)
    # anybody can have a subvolume that they make counted in any group (btrfs subvolume create -i)
    strange = members - one.ids  # guard: nobody's subvolume counts as somebody else's -> set()
    missing = one.ids - members
    if now is None or now.most != one.most:
        used = 0 if now is None else now.used
        over = f"; {size_words(used)} are there: {one.name} can write nothing until it is less" * (used > one.most)
        held.done.append(f"{one.path}: {one.name} may have {size_words(one.most)}{over}")
    elif missing:
        held.done.append(f"{one.path}: {counted(len(missing), 'subvolume')} counted differently")
    elif not strange:
        return
    if strange:
        whose = listed(sorted({theirs.get(id, "somebody") for id in strange}))
        held.done.append(
            f"{one.path}: {counted(len(strange), 'subvolume')} of {whose} no longer counted as {one.name}'s"
        )
    if check:
        return
    if now is None:
        qgroups.make(desk, one.group)
    qgroups.part(desk, sorted(strange), one.group)
    qgroups.join(desk, sorted(missing), one.group)
    if not qgroups.counted(uuid):
        qgroups.count_again(desk)  # what it shares with others; the amount holds from then on
    if now is None or now.most != one.most:
        qgroups.limit(desk, one.most, one.group)
    found = qgroups.group(uuid, one.group)
    if found is None or found.most != one.most:  # guard: an amount that the kernel does not have is told
        held.problems.append(f"{one.path}: the amount of {size_words(one.most)} is not in force")

"""Room on disks that people cannot fill: on btrfs one limit for all subvolumes of a file system that people fill.

The limit is what people have, and what is free, less the reserve. Images, backups and the system's own files take from
what is free, so it follows them: each minute, and whenever the host is set up. ext4 keeps blocks for root by itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from gpuadmin.common.amounts import MOST_RESERVED, NONE, compute_amount
from gpuadmin.common.records.hosts import Disk
from gpuadmin.common.text import counted, size_words

from .. import btrfs, qgroups
from ..errors import NodeError, in_words
from ..files import flocked, sync_filesystem
from ..mounts import NETWORK, Mount, nearest, parse_mountinfo, read_mountinfo
from ..paths import RUN, STATE
from ..unit_status import Outcome, print_outcome
from . import records

RECORD = "disks.json"
#: Seconds that setting up waits for btrfs to count. On a large disk that takes hours: the timer continues.
COUNTING = 60.0
MOST = 5000  # subvolumes of people on one file system
#: What a limit may be off: a part of the reserve. It would else be set again whenever a service writes something.
_OFF = 4
_LEAST = 1 << 20
#: Scratch that is on the system's own disk, or in memory, on most hosts.
_SYSTEMS = ("/tmp", "/var/tmp", "/dev/shm")
_SYSTEM = ("/", "/var")


@dataclass(frozen=True)
class Rooms:
    """What disks.json has. ``paths``: what people fill. ``turned_on``: which of them had no quotas before."""

    reserve: str
    paths: Sequence[str] = ()
    turned_on: Sequence[str] = ()


@dataclass(frozen=True)
class Places:
    """Where everything is. Tests put it elsewhere."""

    state: str = STATE
    run: str = RUN


@dataclass
class Kept(Outcome):
    """``notes``: where nothing keeps room, or not yet."""

    notes: list[str] = field(default_factory=list)


@dataclass
class Tree:
    """Of one btrfs: ``tops``, the subvolumes that people fill, by id; ``ids``: these, and people's own below them."""

    uuid: str
    tops: dict[int, str] = field(default_factory=dict)
    ids: set[int] = field(default_factory=set)

    @property
    def path(self) -> str:
        return next(iter(self.tops.values()))

    @property
    def desk(self) -> str:
        return qgroups.desk(self.path)

    @property
    def where(self) -> str:
        return ", ".join(self.tops.values())


def main(places: Places | None = None) -> int:
    """Have limits follow what is free. 1 where one is not in force."""
    kept = keep(places or Places(), None, check=False, patience=0)
    return print_outcome(kept.done, kept.problems)


def load(places: Places) -> Rooms | None:
    """What this host was told; None: nothing. Raises NodeError for a damaged record."""
    return records.load(Rooms, os.path.join(places.state, RECORD))


def keep(places: Places, wanted: Rooms | None, *, check: bool, patience: float = COUNTING) -> Kept:
    """Bring the disks to what is wanted, and remember it; None: to what is remembered."""
    if check:
        return _keep(places, wanted, check=True, patience=0)
    with flocked(os.path.join(places.run, "locks", "disks")):
        return _keep(places, wanted, check=False, patience=patience)


def space(path: str, at: str | None = None, *, places: Places | None = None) -> tuple[int, int]:
    """Bytes of the file system that ``path`` is or would be on, and how many of them people can still fill there.

    ``at``: a path on it that is there. Raises OSError.
    """
    whole, free = _free(at or path)
    for top, used, most in bounded(places):
        if f"{os.path.realpath(path)}/".startswith(f"{top}/"):
            free = min(free, max(most - used, 0))
    return whole, free


def bounded(places: Places | None = None) -> Iterator[tuple[str, int, int]]:
    """The trees that people cannot fill altogether: path, bytes that are used, bytes at most. Anybody may ask."""
    try:
        rooms = load(places or Places())
    except (NodeError, OSError):
        return
    for tree in _trees(rooms.paths, Kept()) if rooms is not None and rooms.reserve != NONE else ():
        found = qgroups.group(tree.uuid)
        if found is not None and found.most is not None:
            yield from ((top, found.used, found.most) for top in tree.tops.values())


def _keep(places: Places, given: Rooms | None, *, check: bool, patience: float) -> Kept:
    # under the lock: what was remembered before may have been turned off since
    kept, before = Kept(), load(places)
    wanted = before if given is None else given
    if wanted is None:
        return kept
    rooms = replace(wanted, turned_on=() if before is None else before.turned_on)
    if wanted.reserve == NONE:
        if before is None:
            return kept
        for tree in _trees(before.paths, Kept()):
            _give_up(tree, rooms, kept, check)
        if not check:
            records.record(os.path.join(places.state, RECORD), None)
        return kept
    trees = _trees(rooms.paths, kept)
    new = [tree.path for tree in trees if not _on(tree)]
    rooms = replace(rooms, turned_on=(*rooms.turned_on, *(one for one in new if one not in rooms.turned_on)))
    if not check:
        # guard: what is turned on is known as ours, whenever the power goes
        records.record(os.path.join(places.state, RECORD), rooms)
    for tree in trees:
        try:
            _bring(tree, rooms.reserve, kept, check, patience)
        # a program that is not installed, a directory that is gone
        except (NodeError, OSError) as error:  # guard: a disk that no room can be kept on keeps no other from it
            kept.problems.append(f"{tree.where}: no room is kept for root: {in_words(error)}")
    return kept


def _on(tree: Tree) -> bool:
    try:
        return qgroups.enabled(tree.uuid)
    except NodeError:
        return True  # not ours to turn on; _bring says why


def _trees(paths: Sequence[str], kept: Kept) -> list[Tree]:
    """The file systems with btrfs that people fill. Others are looked at."""
    found: dict[str, Tree] = {}
    system = {subvolume(path) for path in _SYSTEM}
    mounted = parse_mountinfo(read_mountinfo())
    for path in dict.fromkeys(os.path.realpath(one) for one in paths):
        mount = nearest(path, mounted)
        if (
            mount is None
            or NETWORK.match(mount.fstype)  # guard: what is on another host is not this one's to keep room on
            or mount.fstype == "autofs"  # guard: nothing is mounted only because it is looked at
            or not os.path.isdir(path)
        ):
            continue
        if mount.fstype != "btrfs":
            note = _other(path, mount.fstype)
            kept.notes += [note] if note and note not in kept.notes else []
            continue
        try:
            own = subvolume(path)
        except PermissionError:
            continue  # a person asks, and may not look into the directory of everybody's Docker data
        if own in system or own is None:
            if path not in _SYSTEMS:
                kept.notes.append(
                    f"{path} is in a subvolume of the system: nothing keeps people from filling the disk; "
                    "make it a subvolume of its own"
                )
            continue
        try:
            top = btrfs.holder(path)
        except NodeError as error:
            kept.notes.append(f"{error}; nothing keeps people from filling the disk")
            continue
        found.setdefault(own[0], Tree(own[0])).tops.setdefault(own[1], top)
    return list(found.values())


def subvolume(path: str) -> tuple[str, int] | None:
    """The file system and the id of the subvolume that a directory is in; None off btrfs."""
    handle = btrfs.open_directory(path)
    try:
        found, uuid = btrfs.read_subvolume(handle), btrfs.read_file_system_uuid(handle)
    finally:
        os.close(handle)
    return None if found is None or uuid is None else (uuid, found.id)


def _other(path: str, fstype: str) -> str:
    """What is wrong with a file system that is not btrfs, or nothing."""
    facts = os.statvfs(path)
    if fstype in ("tmpfs", "ramfs", "overlay"):
        return ""
    if fstype not in ("ext2", "ext3", "ext4"):
        return f"{path} is on {fstype}, which keeps nothing for root: people can fill all of it"
    if facts.f_bfree - facts.f_bavail < facts.f_blocks // 100:
        return f"{path} is on {fstype} that keeps next to nothing for root: tune2fs -m 5 changes that, without a pause"
    return ""


def below(path: str) -> Iterator[tuple[int, int]]:
    """The subvolumes below a directory: each one's id, and the uid that owns its root. They are in no group by
    themselves."""
    handle = btrfs.open_directory(path)
    try:
        for relative in btrfs.nested(handle):
            try:
                inner = btrfs.open_deep(relative, handle)
            except OSError:  # guard: who moves their subvolumes is held to their amount all the same
                continue  # gone, or moved
            try:
                found = btrfs.read_subvolume(inner)
                if found is not None:
                    yield found.id, os.fstat(inner).st_uid
            finally:
                os.close(inner)
    finally:
        os.close(handle)


def _free(path: str) -> tuple[int, int]:
    facts = os.statvfs(path)
    return facts.f_blocks * facts.f_frsize, facts.f_bavail * facts.f_frsize


def _reserve(reserve: str, whole: int) -> int:
    """Bytes; a size that is more than half of a small disk is half of it.

    btrfs gives space to data by the piece, of at most 1 GiB or a tenth of the disk. If the last piece were people's,
    there would be no place left for what makes a new file, and root could not make one either.
    """
    piece = min(1 << 30, whole // 10) + min(1 << 28, whole // 40)
    # guard: the reserve is more than what btrfs gives out at once -> compute_amount(reserve, whole) or 0
    wanted = max(compute_amount(reserve, whole) or 0, piece)
    return min(wanted, whole * MOST_RESERVED // 100)


def _most(tree: Tree, reserve: str) -> tuple[int, int]:
    """What people may have now, and how much of the disk is kept."""
    whole, free = _free(tree.path)
    kept = _reserve(reserve, whole)
    found = qgroups.group(tree.uuid)
    used = 0 if found is None else found.used + found.pending
    # guard: a disk without any room has a limit all the same -> used + free - kept, kept
    return max(used + free - kept, _LEAST), kept


def _bring(tree: Tree, reserve: str, kept: Kept, check: bool, patience: float) -> None:
    on = qgroups.enabled(tree.uuid)
    whole, free = _free(tree.path)
    amount = _reserve(reserve, whole)
    sentence = f"{tree.where}: the last {size_words(amount)} of {size_words(whole)} is kept for root"
    if free < amount:
        sentence += (
            f"; only {size_words(free)} is free, so people write nothing there until there is {size_words(amount)}"
        )
    if not on:
        kept.done += [f"{tree.where}: quotas of btrfs are turned on", sentence]
        if check:
            return
        qgroups.enable(tree.path)
    _make_desks(tree, kept, check)
    new = qgroups.group(tree.uuid) is None
    if not check:
        # guard: no limit is computed from what btrfs has not counted
        if not _counted(tree, patience):
            kept.notes.append(f"{tree.where}: btrfs counts what is there; the limit follows by itself")
            return
    elif not new and not qgroups.counted(tree.uuid):
        return  # it is being counted, which nobody has to do anything about
    if new:
        kept.done += [sentence] if on else []
        if check:
            return
        qgroups.make(tree.desk)
    tops = tree.tops.values()
    # guard: what root keeps below people's directories is not theirs -> (id for top in tops for id, _uid in below(top))
    found = (id for top in tops for id, uid in below(top) if uid != 0)
    # guard: people with ever more subvolumes hold up nobody -> list(found)
    theirs = list(islice(found, MOST + 1))
    if len(theirs) > MOST:
        kept.notes.append(f"{tree.where}: people have more than {MOST} subvolumes: not all of them are bounded")
    tree.ids = {*tree.tops, *theirs[:MOST]}  # guard: a subvolume that somebody makes is not a way around the limit
    missing = tree.ids - qgroups.members(tree.path)
    if missing and not check:
        qgroups.join(tree.desk, sorted(missing))
        if not _counted(tree, patience):  # guard: no limit is computed while what has joined is counted
            return
    if missing and not new:
        kept.done.append(f"{tree.where}: {counted(len(missing), 'more subvolume')} counted as people's")
    _limit(tree, reserve, sentence, kept, check, new)


def _make_desks(tree: Tree, kept: Kept, check: bool) -> None:
    for top in tree.tops.values():
        if qgroups.has_desk(top):
            continue
        if qgroups.group(tree.uuid) is not None:  # of a release that made none
            kept.done.append(f"{top}/{qgroups.DESK}: made, so that limits can be changed when people have filled it")
        if check:
            continue
        try:
            qgroups.make_desk(top)
        except NodeError as error:  # guard: a limit that may not be changed later is set all the same
            kept.problems.append(str(error))


def _limit(tree: Tree, reserve: str, sentence: str, kept: Kept, check: bool, new: bool) -> None:
    if _right(tree, reserve):
        return
    if not new and sentence not in kept.done:
        kept.done.append(sentence)
    if check:
        return
    sync_filesystem(tree.path)  # what is on its way to the disk is neither used nor free
    most, _amount = _most(tree, reserve)
    qgroups.limit(tree.desk, most)
    found = qgroups.group(tree.uuid)
    if found is None or found.most != most:  # guard: a limit that the kernel does not have is told
        kept.problems.append(f"{tree.where}: the limit of {size_words(most)} is not in force")


def _right(tree: Tree, reserve: str) -> bool:
    found = qgroups.group(tree.uuid)
    most, amount = _most(tree, reserve)
    return found is not None and found.most is not None and abs(found.most - most) <= amount // _OFF


def _counted(tree: Tree, patience: float) -> bool:
    end = time.monotonic() + patience
    if not qgroups.counted(tree.uuid):
        qgroups.count_again(tree.desk)
    while not qgroups.counted(tree.uuid):
        if time.monotonic() >= end:
            return False
        time.sleep(0.2)  # sysfs tells nobody that a count has ended
    return True


def _give_up(tree: Tree, rooms: Rooms, kept: Kept, check: bool) -> None:
    if not _on(tree) or qgroups.group(tree.uuid) is None:
        return
    kept.done.append(f"{tree.where}: nothing is kept for root any more")
    if check:
        return
    if tree.path not in rooms.turned_on:  # guard: quotas that were there before stay
        qgroups.unmake(tree.desk)
    else:
        qgroups.disable(tree.desk)
    for top in tree.tops.values():
        try:
            qgroups.unmake_desk(top)
        except OSError as error:
            kept.notes.append(f"{top}/{qgroups.DESK} is left: {error.strerror}")


def disk(path: str, mountinfo: str | None = None) -> Disk:
    """Bytes and free bytes of the file system that a path is or would be on, and where that is mounted.

    A file server may be away: what is on one is not asked. Raises NodeError.
    """
    mounts = parse_mountinfo(read_mountinfo() if mountinfo is None else mountinfo)
    mount = _local(path, mounts)  # before a link is followed, which may ask the file server that it is on
    real = os.path.realpath(path)
    if real != path:  # guard: a link that leads to a file server is not asked
        mount = _local(real, mounts)
    whole, free = space(real, mount.point)
    return Disk(path, mount.point, whole, free)


def _local(path: str, mounts: list[Mount]) -> Mount:
    mount = nearest(path, mounts)
    # guard: a disk's path is asked of no file server -> mount is None
    if mount is None or NETWORK.match(mount.fstype) or mount.fstype == "autofs":
        raise NodeError(f"{path} is on no disk of this host ({mount.fstype if mount else 'nothing is mounted there'})")
    return mount

"""What people leave on a node's own disks: their Docker data, and what is theirs at the top of shared directories.

Names are collected here, decided on the controller, and only those are deleted, each only if it is still the same
thing of the same owner. What belongs to somebody else stays, wherever it lies.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote_from_bytes, unquote_to_bytes

from gpuadmin.common.records.people import ItemReport, Purged, Scratch, ScratchItem
from gpuadmin.common.records.wipes import WipeScratch
from gpuadmin.common.text import counted

from .. import btrfs, mounts
from ..errors import NodeError, in_words
from ..fields import quoted
from ..files import sync_filesystem
from ..people import Person
from ..people import parse as parse_people
from ..purge import keep, owned_by, purge
from ..report import Reports

MOST_ITEMS = 2000  # of one person in one directory: a person with a million does not fill everybody's report
TRIES = 3  # where somebody moves what is being deleted


def _plain(path: str) -> bool:
    return (
        path.startswith("/")
        and path != "/"  # guard: the whole system is nobody's scratch
        and os.path.realpath(path) == path  # guard: scratch is not looked for through links
    )


def observe(directories: Sequence[str], docker: str | None, people: Sequence[Person]) -> Scratch:
    """What of these people is in the directories, and how many entries of unknown people are.

    Network file systems are left alone: what is there is not this node's. What vanishes meanwhile is left out. Of
    somebody who has more than MOST_ITEMS entries in one directory that many are named; the rest is a problem.
    """
    found = Scratch()
    by_uid = {one.uid: one for one in people}
    for directory in dict.fromkeys([*([docker] if docker else []), *directories]):
        if (
            not _plain(directory)
            or not os.path.isdir(directory)
            or mounts.network_filesystem(directory)  # guard: scratch on a network file system is not this node's
        ):
            continue
        try:
            _look(found, directory, directory == docker, people, by_uid)
        except OSError as error:
            found.problems[directory] = f"cannot be looked at: {error.strerror}"
    found.items.sort(key=lambda item: (item.directory, item.name))
    return found


def _look(found: Scratch, directory: str, docker: bool, people: Sequence[Person], by_uid: Mapping[int, Person]) -> None:
    """Add what is in one directory. ``docker``: an entry is somebody's by its name, too."""
    counts: dict[str, int] = {}
    with os.scandir(os.fsencode(directory)) as entries:
        for entry in entries:
            try:
                facts = entry.stat(follow_symlinks=False)
                number = _number(os.path.join(os.fsencode(directory), entry.name), facts)
            except OSError:  # guard: an entry of /tmp that has gone
                continue  # it has gone since it was listed: /tmp is never still
            if facts.st_uid < 1000:  # guard: scratch of the system
                continue
            person = by_uid.get(facts.st_uid) or next((one for one in people if one.owns(facts.st_uid)), None)
            if person is None or (docker and entry.name != os.fsencode(person.name)):
                found.unknown[directory] = found.unknown.get(directory, 0) + 1
                continue
            counts[person.name] = count = counts.get(person.name, 0) + 1
            if count <= MOST_ITEMS:
                found.items.append(
                    ScratchItem(person.name, facts.st_uid, directory, quote_from_bytes(entry.name, safe=" +,:=@^~"),
                                _kind(facts.st_mode), number, facts.st_size if stat.S_ISREG(facts.st_mode) else None)
                )  # fmt: skip
    for name, count in counts.items():
        if count > MOST_ITEMS:
            found.problems[f"{directory}: {name}"] = (
                f"has {count} entries there: {MOST_ITEMS} are named, the others stay for another run"
            )


def _number(path: bytes, facts: os.stat_result) -> int:
    """The inode of an entry. The roots of all subvolumes have the same: of one it is the subvolume's number."""
    if not stat.S_ISDIR(facts.st_mode) or facts.st_ino != btrfs.SUBVOLUME_INODE:
        return facts.st_ino
    handle = btrfs.open_directory(path)
    try:
        # guard: a subvolume that was made anew is another thing -> facts.st_ino
        return btrfs.identity(handle, os.fstat(handle))
    finally:
        os.close(handle)


def _kind(mode: int) -> str:
    for test, word in ((stat.S_ISDIR, "directory"), (stat.S_ISREG, "file"), (stat.S_ISLNK, "link")):
        if test(mode):
            return word
    return "other"


@dataclass(frozen=True)
class Request:
    """``items``: what was decided. ``directories``: where anything may go."""

    items: Sequence[ScratchItem]
    directories: Sequence[str]
    people: Sequence[Person]


def build_request(order: WipeScratch) -> Request:
    """Given an order, return it with its people checked. Raises NodeError for whoever is refused."""
    return Request(order.items, order.directories, parse_people(order.people))


@dataclass
class Plan(Reports[ItemReport]):
    """`status` of an entry: wiped, absent, conflict (kept, wholly or in part, for the reason in `problem`)."""

    KEY = "scratch"

    go: list[tuple[str, str, bytes, Person]] = field(default_factory=list)  # key in entries, directory, name, owner


def _refused(item: ScratchItem, request: Request, people: Mapping[str, Person]) -> str | None:
    directory, name = item.directory, unquote_to_bytes(item.name)
    if directory not in request.directories or not _plain(directory):
        return f"{quoted(directory)} is not a directory that is wiped"
    if name in (b"", b".", b"..") or b"/" in name or b"\0" in name:
        return "is not a name"
    person = people.get(item.user)
    if person is None or not person.owns(item.uid):
        return f"does not belong to {quoted(item.user)}"
    return None


def compute(request: Request, table: list[mounts.Mount]) -> Plan:
    """Decide for each item, by what is there now."""
    plan = Plan()
    people = {one.name: one for one in request.people}
    for wanted in request.items:
        path = f"{wanted.directory}/{wanted.name}"
        item = plan.entries[path] = ItemReport("wiped", user=wanted.user)
        problem = _refused(wanted, request, people)
        if problem is None:
            directory, name = wanted.directory, unquote_to_bytes(wanted.name)
            real = os.path.join(os.fsencode(directory), name)
            try:
                facts = os.lstat(real)
                number = _number(real, facts)
            except FileNotFoundError:
                item.status = "absent"
                continue
            except OSError as error:
                item.status, item.problem = "conflict", f"cannot be looked at: {error.strerror}"
                continue
            inside = mounts.below(os.fsdecode(real), table)
            # guard: scratch that another uid has by now -> number != wanted.inode
            if (facts.st_uid, number) != (wanted.uid, wanted.inode):
                problem = "is another thing than when it was decided"
            elif inside:  # guard: scratch on which something is mounted stays
                problem = f"{quoted(inside[0].point)} is mounted there"
            else:
                item.operations.append(f"wipe {_kind(facts.st_mode)} of {item.user} (not backed up)")
                plan.go.append((path, directory, name, people[item.user]))
        if problem:
            item.status, item.problem = "conflict", problem
    return plan


def observe_and_compute(request: Request) -> Plan:
    return compute(request, mounts.parse_mountinfo(mounts.read_mountinfo()))


def wipe(request: Request) -> tuple[Plan, dict[str, Purged]]:
    """Delete what was decided and is still the same; return the plan and what was done to each.

    What is reported as deleted is deleted on disk: nobody looks for it again. What cannot be deleted, because somebody
    still writes in it, is a conflict with its owner's name, and the others are deleted.
    """
    plan = observe_and_compute(request)
    done: dict[str, Purged] = {}
    for path, directory, name, person in plan.go:
        done[path], problem = _purge(directory, name, person)
        if problem:
            plan.entries[path].status, plan.entries[path].problem = "conflict", problem
    for directory in {directory for _, directory, _, _ in plan.go}:
        sync_filesystem(directory)
    return plan, done


def _purge(directory: str, name: bytes, person: Person) -> tuple[Purged, str | None]:
    """Delete one entry, as often as somebody moves what is in it under our hands; return why something of it stays."""
    total, problem = Purged(0, 0, []), None
    for _ in range(TRIES):
        try:
            handle = btrfs.open_directory(directory)
            try:
                done = purge(handle, name, owned_by(person.subids, person.uid))
            finally:
                os.close(handle)
        except (OSError, NodeError) as error:  # guard: one entry of scratch that cannot be deleted
            problem = f"stays, wholly or in part: {in_words(error)}"
            continue
        total.deleted, total.bytes = total.deleted + done.deleted, total.bytes + done.bytes
        total.kept, total.words = done.kept, done.words
        stay = counted(done.kept, "entry stays", "entries stay")
        return total, f"{stay}: {', '.join(done.words)}" if done.kept else None
    keep(total, name, problem or "")
    return total, problem

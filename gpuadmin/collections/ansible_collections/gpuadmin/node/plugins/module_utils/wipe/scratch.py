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

from gpuadmin.common.text import counted

from .. import btrfs, mounts
from ..errors import NodeError, in_words
from ..fields import quoted, whole_number
from ..files import sync_filesystem
from ..people import Person
from ..purge import Purged, owned_by, purge
from ..report import Reports, UserReport

MOST_ITEMS = 2000  # of one person in one directory: a person with a million does not fill everybody's report
TRIES = 3  # where somebody moves what is being deleted


@dataclass(frozen=True)
class Item:
    """One entry. ``name`` has its unusual bytes as %XX, so that any name can be printed and sent."""

    directory: str
    name: str
    kind: str  # directory, file, link, other
    uid: int
    inode: int
    user: str
    bytes: int | None = None  # of a file; nobody counts a directory only to delete it

    def as_dict(self) -> dict[str, object]:
        return dict(vars(self))


def percent_encoded(name: bytes) -> str:
    return quote_from_bytes(name, safe=" +,:=@^~")


@dataclass
class Found:
    items: list[Item] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)  # directory → entries of people nobody knows
    problems: dict[str, str] = field(default_factory=dict)  # what stays, and why

    def as_dict(self) -> dict[str, object]:
        return {"items": [item.as_dict() for item in self.items], "unknown": self.unknown, "problems": self.problems}


def _plain(path: str) -> bool:
    return (
        path.startswith("/")
        and path != "/"  # guard: the whole system is nobody's scratch
        and os.path.realpath(path) == path  # guard: scratch is not looked for through links
    )


def observe(directories: Sequence[str], docker: str | None, people: Sequence[Person]) -> Found:
    """What of these people is in the directories, and how many entries of unknown people are.

    Network file systems are left alone: what is there is not this node's. What vanishes meanwhile is left out. Of
    somebody who has more than MOST_ITEMS entries in one directory that many are named; the rest is a problem.
    """
    found = Found()
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


def _look(found: Found, directory: str, docker: bool, people: Sequence[Person], by_uid: Mapping[int, Person]) -> None:
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
                    Item(directory, percent_encoded(entry.name), _kind(facts.st_mode), facts.st_uid, number,
                         person.name, facts.st_size if stat.S_ISREG(facts.st_mode) else None)
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
    """``items``: what was decided: {directory, name, uid, inode, user}. ``directories``: where anything may go."""

    items: Sequence[Mapping[str, object]]
    directories: Sequence[str]
    people: Sequence[Person]


@dataclass
class Outcome(UserReport):
    """``status``: wiped, absent, conflict (kept, wholly or in part, for the reason in ``problem``)."""

    user: str = ""

    def as_dict(self) -> dict[str, object]:
        return {**super().as_dict(), "user": self.user}


@dataclass
class Plan(Reports[Outcome]):
    KEY = "scratch"

    go: list[tuple[str, str, bytes, Person]] = field(default_factory=list)  # key in entries, directory, name, owner


def _refused(raw: Mapping[str, object], request: Request, people: Mapping[str, Person]) -> str | None:
    directory, name = str(raw.get("directory")), unquote_to_bytes(str(raw.get("name")))
    if directory not in request.directories or not _plain(directory):
        return f"{quoted(directory)} is not a directory that is wiped"
    if name in (b"", b".", b"..") or b"/" in name or b"\0" in name:
        return "is not a name"
    if whole_number(raw.get("uid")) is None or whole_number(raw.get("inode")) is None:
        return "has no owner and inode"
    person = people.get(str(raw.get("user")))
    if person is None or not person.owns(int(str(raw["uid"]))):
        return f"does not belong to {quoted(raw.get('user'))}"
    return None


def compute(request: Request, table: list[mounts.Mount]) -> Plan:
    """Decide for each item, by what is there now."""
    plan = Plan()
    people = {one.name: one for one in request.people}
    for raw in request.items:
        path = f"{raw.get('directory')}/{raw.get('name')}"
        item = plan.entries[path] = Outcome("wiped", user=str(raw.get("user")))
        problem = _refused(raw, request, people)
        if problem is None:
            directory, name = str(raw["directory"]), unquote_to_bytes(str(raw["name"]))
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
            # guard: scratch that another uid has by now -> number != int(str(raw['inode']))
            if (facts.st_uid, number) != (int(str(raw["uid"])), int(str(raw["inode"]))):
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
    total, problem = Purged(), None
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
        total.deleted, total.freed = total.deleted + done.deleted, total.freed + done.freed
        total.kept, total.reasons = done.kept, done.reasons
        stay = counted(done.kept, "entry stays", "entries stay")
        return total, f"{stay}: {', '.join(done.reasons)}" if done.kept else None
    total.keep(name, problem or "")
    return total, problem

"""Sending a home: what is in it, or how it differs from one that the other host has, in the order of the walk.

Records go down into directories and up again, and name what is there by single names: no path is sent, however deep a
home is. Holes are not sent, and of a file that has changed only what differs. applying.py is the other end.
"""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuadmin.common.text import size_words

from .. import extents
from ..attributes import read_attributes
from ..btrfs import open_deep, open_directory
from ..budget import Budget
from ..errors import NodeError
from ..purge import Twin
from ..safe_walk import Entry, identity
from . import backup_set, home_manifest
from .backup_set import Backup
from .home_manifest import Line
from .home_walk import order, visits
from .wire import BLOCK, Link

SHARED, MORE = 4, 10 << 30  # times what a home holds, and bytes beside that, that it may be without what it shares
LARGE = 1 << 18  # bytes of a file from which on to look where its blocks are
PART = b"part"  # the name of a part of a home that is not a directory
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOATIME


@dataclass(frozen=True)
class Source:
    """A home in a set: its top, the snapshots of subvolumes in it, its manifest."""

    top: str
    nested: Mapping[str, str]
    manifest: str

    @classmethod
    def of(cls, backup: Backup, user: str) -> Source:
        return cls(*backup_set.source(backup, user), backup.manifest(user))


def send(source: Source, link: Link, budget: Budget, earlier: Source | None = None) -> None:
    """Send a home whole, or as the difference to an earlier one, and its manifest before it.

    Raises NodeError; Stopped if the other host stops taking data.
    """
    put_manifest(source.manifest, link)
    top = open_directory(source.top)
    try:
        if earlier is None:
            sender = Sender(link, budget)
            for entry in visits(top, source.nested, budget):
                sender.whole(entry)
            sender.end(top)
            return
        with Twin(earlier.top, earlier.nested) as twin:
            sender = Sender(link, budget, twin)
            sender.needed = _needed(_lines(source, budget), _lines(earlier, budget))
            found = visits(top, source.nested, budget)
            sender.difference(found, _lines(source, budget), _lines(earlier, budget))
            sender.end(top)
    finally:
        os.close(top)


def send_part(source: Source, inner: str, top: str, rest: str, below: Mapping[str, str], link: Link,
              budget: Budget) -> None:  # fmt: skip
    """Send a part of a home (``inner``), which is ``rest`` below ``top`` and contains the subvolumes ``below``."""
    put_manifest(source.manifest, link)
    base = open_directory(os.path.dirname(top) if not rest else top)
    try:
        above, name = os.path.split(os.fsencode(rest or os.path.basename(top)))
        at = open_deep(above, base)
    except FileNotFoundError:
        raise NodeError(f"{inner} is not in the backup") from None
    finally:
        os.close(base)
    try:
        try:
            facts = os.stat(name, dir_fd=at, follow_symlinks=False)
        except FileNotFoundError:
            raise NodeError(f"{inner} is not in the backup") from None
        sender = Sender(link, budget)
        if not stat.S_ISDIR(facts.st_mode):
            sender.whole(Entry(PART, name, at, facts))
            link.put("end")
            return
        handle = open_directory(name, at)
        try:
            for entry in visits(handle, below, budget):
                sender.whole(entry)
            sender.end(handle)
        finally:
            os.close(handle)
    finally:
        os.close(at)


def _lines(source: Source, budget: Budget) -> Iterator[Line]:
    return home_manifest.read(source.manifest, budget.again())


def put_manifest(path: str, link: Link) -> None:
    with open(path, "rb") as stream:
        while data := stream.read(BLOCK):
            link.put("manifest", data)
    link.put("listed")


def _needed(new: Iterator[Line], old: Iterator[Line]) -> set[int]:
    """Inodes that get a further name: the other host must keep them at hand until it comes."""
    needed, before = set(), next(old, None)
    for line in new:
        if line.kind != "h":
            continue
        while before is not None and order(before.path) < order(line.path):
            before = next(old, None)
        if before != line:
            needed.add(line.inode)
    return needed


class Sender:
    """Says records of what it is given.

    ``needed``: inodes that are linked later; None: not known, so each file with several names is kept.
    """

    def __init__(self, link: Link, budget: Budget, twin: Twin | None = None) -> None:
        self._link = link
        self._budget = budget
        self._twin = twin
        self._here: list[bytes] = []  # where the other host is
        self._seen: set[tuple[int, int]] = set()
        self._old: Line | None = None
        self._gone = b""
        self._held = extents.Held()
        self.needed: set[int] | None = None

    def end(self, top: int) -> None:
        """Everything in it is sent: now say what the top itself must be like."""
        self._link.put("end", **given(os.fstat(top), top))

    # whole

    def whole(self, entry: Entry) -> None:
        if entry.leaving:
            self._leave(entry)
            return
        key = identity(entry.facts)
        linked = stat.S_ISREG(entry.facts.st_mode) and entry.facts.st_nlink > 1
        further = linked and key in self._seen
        if linked and not further:
            self._budget.hold(b"")
            self._seen.add(key)
        self._make(entry, further=further)

    def _make(self, entry: Entry, *, further: bool) -> None:
        facts, name = entry.facts, _name(entry)
        if stat.S_ISDIR(facts.st_mode):
            self._link.put("mkdir", name=os.fsdecode(name))
            self._here.append(name)
        elif further:
            self._link.put("link", name=os.fsdecode(name), id=read_subvolume_id(facts))
        elif stat.S_ISLNK(facts.st_mode):
            target = os.fsdecode(os.readlink(entry.name, dir_fd=entry.at))
            self._link.put("symlink", name=os.fsdecode(name), target=target, **_owner(facts))
        elif stat.S_ISREG(facts.st_mode):
            self._link.put("file", name=os.fsdecode(name), size=facts.st_size)
            with _opened(entry) as handle:
                self._refuse_shared(handle.fileno(), facts.st_size)
                for at, data in extents.pieces(handle.fileno(), facts.st_size, self._budget):
                    self._link.put("data", data, at=at)
            self._give(entry)
        else:
            mode = stat.S_IFMT(facts.st_mode)
            self._link.put("node", name=os.fsdecode(name), kind=mode, device=facts.st_rdev)
            self._give(entry)

    def _refuse_shared(self, handle: int, size: int) -> None:
        """Files that share blocks (cp --reflink) do not in the copy. Refuse a home that would grow too much by that."""
        if size >= LARGE:
            held = self._held
            held.add(handle, size)
            if held.asked > SHARED * held.bytes + MORE:  # guard: what shares its blocks does not fill the other disk
                raise NodeError(
                    f"its files share their blocks: {size_words(held.bytes)} of them would be more than "
                    f"{size_words(held.asked)} in a copy"
                )

    def _give(self, entry: Entry) -> None:
        facts = entry.facts
        linked = stat.S_ISREG(facts.st_mode) and facts.st_nlink > 1
        kept = linked and (self.needed is None or facts.st_ino in self.needed)
        self._link.put("give", **read_given_attributes(entry), **({"id": read_subvolume_id(facts)} if kept else {}))

    def _leave(self, entry: Entry) -> None:
        if len(self._here) == entry.path.count(b"/") + 1:
            self._link.put("leave", **read_given_attributes(entry))
            self._here.pop()

    # differences

    def difference(self, found: Iterable[Entry], new: Iterator[Line], old: Iterator[Line]) -> None:
        """Send how ``found``, whose manifest is ``new``, differs from what the manifest ``old`` says."""
        next(new, None)
        next(old, None)  # the top itself
        self._old = next(old, None)
        for entry in found:
            if entry.leaving:
                while self._old is not None and os.fsencode(self._old.path).startswith(entry.path + b"/"):
                    self._drop(old)
                self._leave(entry)
                continue
            line = next(new, None)
            if line is None or os.fsencode(line.path) != entry.path:
                raise NodeError(f"its manifest does not match what is there: {os.fsdecode(entry.path)!r}")
            while self._old is not None and order(self._old.path) < order(entry.path):
                self._drop(old)
            before = None
            if self._old is not None and self._old.path == line.path:
                before, self._old = self._old, next(old, None)
                if os.fsencode(before.path).startswith(self._gone + b"/") and self._gone:
                    before = None
            self._differ(entry, line, before)
        while self._old is not None:
            self._drop(old)

    def _go(self, path: bytes) -> None:
        """Go down to the entry's directory. The other host only enters directories in which something changes."""
        parts = path.split(b"/")[:-1]
        for part in parts[len(self._here) :]:
            self._link.put("enter", name=os.fsdecode(part))
            self._here.append(part)

    def _drop(self, old: Iterator[Line]) -> None:
        """Remove what the earlier home has and this one has not."""
        assert self._old is not None
        path = os.fsencode(self._old.path)
        self._old = next(old, None)
        if self._gone and path.startswith(self._gone + b"/"):
            return  # it went with the directory
        self._remove(path)

    def _remove(self, path: bytes) -> None:
        self._go(path)
        self._link.put("remove", name=os.fsdecode(path.rpartition(b"/")[2]))
        self._gone = path

    def _differ(self, entry: Entry, line: Line, before: Line | None) -> None:
        kept = line.kind == "f" and self.needed is not None and line.inode in self.needed
        same = before is not None and before.kind == line.kind
        if before == line:
            if kept and entry.facts.st_nlink > 1:
                self._go(entry.path)
                self._link.put("keep", name=os.fsdecode(_name(entry)), id=read_subvolume_id(entry.facts))
        elif same and line.kind == "d":
            self._go(entry.path + b"/")
        elif same and line.kind == "f":
            assert before is not None
            self._go(entry.path)
            if (before.content, before.size) == (line.content, line.size):
                self._link.put("meta", name=os.fsdecode(_name(entry)))
            else:
                self._patch(entry, before)
            self._give(entry)
        else:
            if before is not None:
                self._remove(entry.path)
            self._go(entry.path)
            self._make(entry, further=line.kind == "h")

    def _patch(self, entry: Entry, before: Line) -> None:
        size, name = entry.facts.st_size, entry.path.rpartition(b"/")[2]
        if self._twin is None:
            self._anew(entry)
            return
        above = self._twin.directory(entry.path.rpartition(b"/")[0])
        if above is None:
            raise NodeError(f"{before.path!r} is not in the earlier backup")
        self._link.put("patch", name=os.fsdecode(name), size=size)
        earlier = os.open(name, READ, dir_fd=above)
        try:
            with _opened(entry) as handle:
                self._refuse_shared(handle.fileno(), size)
                changes = extents.changes(earlier, os.fstat(earlier).st_size, handle.fileno(), size, self._budget)
                for at, length, data in changes:
                    if data is None:
                        self._link.put("hole", at=at, length=length)
                    else:
                        self._link.put("data", data, at=at)
        finally:
            os.close(earlier)

    def _anew(self, entry: Entry) -> None:
        """Send all of a file whose earlier content is not here. It stays the inode that its other names have."""
        size, name = entry.facts.st_size, os.fsdecode(_name(entry))
        self._link.put("patch", name=name, size=0)
        self._link.put("give", **read_given_attributes(entry))
        self._link.put("patch", name=name, size=size)
        with _opened(entry) as handle:
            self._refuse_shared(handle.fileno(), size)
            for at, data in extents.pieces(handle.fileno(), size, self._budget):
                self._link.put("data", data, at=at)


def changes(
    top: int, new: Callable[[], Iterator[Line]], old: Callable[[], Iterator[Line]], link: Link, budget: Budget
) -> None:
    """Send how the open directory ``top`` (manifest: ``new``) differs from what the other host has (``old``).

    Files that have changed are sent whole. Raises NodeError where ``top`` is not as its manifest says.
    """
    sender = Sender(link, budget)
    sender.needed = _needed(new(), old())
    sender.difference(visits(top, {}, budget), new(), old())
    sender.end(top)


def _name(entry: Entry) -> bytes:
    return entry.path.rpartition(b"/")[2]


def read_subvolume_id(facts: os.stat_result) -> str:
    return f"{facts.st_dev}-{facts.st_ino}"


def _opened(entry: Entry) -> Any:
    handle = os.open(entry.name, READ, dir_fd=entry.at)
    if identity(os.fstat(handle)) != identity(entry.facts):
        os.close(handle)
        raise NodeError(f"{os.fsdecode(entry.path)!r} was exchanged while it was sent")
    return os.fdopen(handle, "rb", buffering=0)


def _owner(facts: os.stat_result) -> dict[str, object]:
    return {"uid": facts.st_uid, "gid": facts.st_gid, "times": [facts.st_atime_ns, facts.st_mtime_ns]}


def given(facts: os.stat_result, of: int | str) -> dict[str, object]:
    """What a file, directory or device has beside its content."""
    found = {os.fsdecode(name): base64.b64encode(value).decode() for name, value in read_attributes(of).items()}
    return {**_owner(facts), "mode": stat.S_IMODE(facts.st_mode), **({"attributes": found} if found else {})}


def read_given_attributes(entry: Entry) -> dict[str, object]:
    handle = os.open(entry.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=entry.at)
    try:
        return given(entry.facts, f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)

"""Reading a home, or a snapshot of one, into the lines of a manifest (home_manifest.py)."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping

from .. import extents
from ..attributes import attribute_names
from ..btrfs import is_placeholder, open_directory
from ..budget import Budget
from ..errors import NodeError
from ..safe_walk import Entry
from .home_manifest import FORM, Line
from .home_walk import order, visits

_KINDS = {
    stat.S_IFREG: "f", stat.S_IFDIR: "d", stat.S_IFLNK: "l", stat.S_IFIFO: "p", stat.S_IFSOCK: "s", stat.S_IFCHR: "c",
    stat.S_IFBLK: "b",
}  # fmt: skip
Owner = Callable[[int], int]


class _Earlier:
    """What an earlier manifest says, asked in the order of the walk: neither of the two has to fit into memory.

    ``untouched``: nanoseconds since when a copy has been changed whose other files are as that manifest says.
    """

    def __init__(self, found: Iterator[Line], untouched: int | None) -> None:
        self._found = found
        self._untouched = untouched
        self._next: Line | None = None
        self._done = False

    def content(self, path: str, facts: os.stat_result) -> str | None:
        """The checksum of a file that has not changed: nothing changes a file without changing its ctime."""
        # guard: what was touched is read again
        if self._untouched is not None and facts.st_ctime_ns >= self._untouched:
            return None
        wanted = order(path)
        while not self._done and (self._next is None or order(self._next.path) < wanted):
            try:
                self._next = next(self._found, None)
            # guard: a damaged manifest of before ends no later backup
            except NodeError:  # damaged, but backups must go on: the rest is read
                self._next = None
            self._done = self._next is None
        line = self._next
        if (
            line is None
            or line.path != path
            # guard: checksums of the format before are not taken over -> not line.content
            or len(line.content) != extents.LENGTH
        ):
            return None
        if self._untouched is not None:
            return line.content if line.kind == "f" else None
        now = (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        return line.content if (line.inode, line.size, line.mtime, line.ctime) == now else None


class Reader:
    """Turns entries into lines; knows which inodes it has seen, and what an earlier manifest says of them."""

    def __init__(
        self,
        owner: Owner = lambda one: one,
        earlier: Iterator[Line] | None = None,
        budget: Budget | None = None,
        form: int = FORM,
        links: bool = True,
        live: str | None = None,
        untouched: int | None = None,
    ) -> None:
        """``links``: whether a further name of a file is a link to the first one, or a file as well."""
        self._links = links
        self.owner = owner
        self.budget = budget or Budget()
        self._form = form
        self._earlier = _Earlier(iter(()) if earlier is None else earlier, untouched)
        self._first: dict[tuple[int, int], tuple[int, str]] = {}
        self._count = 0  # lines that were made
        self._live = live

    def stub(self, path: str) -> None:
        """Raise NodeError if a backup that is being made lacks a subvolume. An older one has its manifest for that."""
        if self._live is None:
            return
        handle = open_directory(self._live)
        try:
            lacks = not is_placeholder(path, handle)  # guard: an empty place of a subvolume lacks nothing -> True
        finally:
            os.close(handle)
        if lacks:  # guard: a subvolume that is not in the backup is a problem
            raise NodeError(f"{path!r} is a subvolume of its own that this backup does not hold")

    def line(self, entry: Entry, path: str) -> Line:
        line = self._line(entry, path)
        self._count += 1
        return line

    def _line(self, entry: Entry, path: str) -> Line:
        facts, number = entry.facts, 0
        kind = _KINDS.get(stat.S_IFMT(facts.st_mode), "?")
        mode, uid, gid = stat.S_IMODE(facts.st_mode), self.owner(facts.st_uid), self.owner(facts.st_gid)
        if kind == "l":
            return Line(path, kind, 0, uid, gid, link=os.fsdecode(os.readlink(entry.name, dir_fd=entry.at)))
        if kind not in "fd":
            size = facts.st_rdev if kind in "cb" else 0
            return Line(path, kind, mode, uid, gid, size, attributes=self._special(entry))
        if kind == "f" and facts.st_nlink > 1 and self._links:
            key = (facts.st_dev, facts.st_ino)
            if key not in self._first:
                self.budget.hold(os.fsencode(path) * 4)  # it is kept as text of up to four bytes a letter
            number, first = self._first.setdefault(key, (self._count, path))
            if first != path:
                return Line(path, "h", mode, uid, gid, link=first, inode=facts.st_ino, number=number)
        handle = os.open(
            entry.name,
            os.O_RDONLY
            | os.O_NOFOLLOW  # guard: a file that became a link is not read
            | os.O_NONBLOCK
            | os.O_CLOEXEC
            | os.O_NOATIME,
            dir_fd=entry.at,
        )
        try:
            attributes = self._attributes(handle)
            if kind == "d":
                return Line(path, kind, mode, uid, gid, attributes=attributes)
            content = self._earlier.content(path, facts) or self._content(handle, facts.st_size)
        finally:
            os.close(handle)
        return Line(path, kind, mode, uid, gid, facts.st_size, facts.st_mtime_ns, content, "", attributes,
                    facts.st_ino, facts.st_ctime_ns, number)  # fmt: skip

    def top(self, handle: int) -> Line:
        self._count += 1
        facts = os.fstat(handle)
        return Line(".", "d", stat.S_IMODE(facts.st_mode), self.owner(facts.st_uid), self.owner(facts.st_gid),
                    attributes=self._attributes(handle))  # fmt: skip

    def _content(self, handle: int, size: int) -> str:
        return (extents.old_digest if self._form == 1 else extents.digest)(handle, size, self.budget)

    def _special(self, entry: Entry) -> str:
        """Attributes of what must not be opened, by way of a handle that opens nothing."""
        if self._form == 1:
            return ""
        handle = os.open(entry.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=entry.at)
        try:
            return _attributes(f"/proc/self/fd/{handle}")
        finally:
            os.close(handle)

    def _attributes(self, handle: int) -> str:
        try:
            return _attributes(handle)
        except OSError:
            if self._form != 1:
                raise
            return ""


def _attributes(of: int | str) -> str:
    """A checksum of the extended attributes; empty if there are none."""
    names = attribute_names(of)
    digest = hashlib.sha256()
    for name in names:
        value = os.getxattr(of, name)
        digest.update(os.fsencode(name) + b"\0" + str(len(value)).encode() + b"\0" + value)
    return digest.hexdigest()[:32] if names else ""


def lines(
    top: str | int,
    nested: Mapping[str, str] | None = None,
    *,
    owner: Owner = lambda one: one,
    earlier: Iterator[Line] | None = None,
    budget: Budget | None = None,
    form: int = FORM,
    live: str | None = None,
    untouched: int | None = None,
) -> Iterator[Line]:
    """The lines of everything below the directory ``top`` (a path, or open), after one for it itself (path ``.``).

    ``nested``: path below ``top`` → where the snapshot of the subvolume that was there lies. ``live``: the home that a
    backup is being made of: a subvolume in it that is not among them is an error, because it would be missing in the
    backup. Where there is an empty directory in its place in the home itself, nothing is missing, and it has no line.
    ``owner`` translates ids. ``untouched``: ``earlier`` says what was copied, and what has changed since then is read.
    """
    reader = Reader(owner, earlier, budget, form, live=live, untouched=untouched)
    handle = os.dup(top) if isinstance(top, int) else open_directory(top)
    try:
        yield reader.top(handle)
        for entry in visits(handle, nested or {}, reader.budget, reader.stub):  # as a restore walks through it
            if not entry.leaving:
                yield reader.line(entry, os.fsdecode(entry.path))
    finally:
        os.close(handle)


def single(at: int, name: bytes, path: str, reader: Reader) -> Line:
    """The line of one entry of an open directory, by itself."""
    return reader.line(Entry(name, name, at, os.stat(name, dir_fd=at, follow_symlinks=False)), path)

"""What is in a home, file by file, and one checksum over it that a restored home can be held against.

A line per entry in the order of the walk. The checksum covers paths, kinds, modes, owners, sizes, times of change,
targets, extended attributes and contents; it does not cover inode numbers, times of directories, and ctime, which no
copy can have. Nested subvolumes count as the directories that they look like.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from .btrfs import PLACEHOLDER_INODE, open_directory
from .descend import Entry, same_file_system, walk
from .errors import NodeError

BLOCK = 1 << 20
_ZEROS = hashlib.sha256(bytes(BLOCK)).digest()
_KINDS = {
    stat.S_IFREG: "f", stat.S_IFDIR: "d", stat.S_IFLNK: "l", stat.S_IFIFO: "p", stat.S_IFSOCK: "s", stat.S_IFCHR: "c",
    stat.S_IFBLK: "b",
}  # fmt: skip
Owner = Callable[[int], int]


@dataclass(frozen=True)
class Line:
    """One entry. ``link``: a symbolic link's target, or for a further hard link the path that came first."""

    path: str  # os.fsdecode: bytes that are no UTF-8 are surrogates
    kind: str
    mode: int
    uid: int
    gid: int
    size: int = 0
    mtime: int = 0
    content: str = ""
    link: str = ""
    attributes: str = ""
    inode: int = field(default=0, compare=False)
    ctime: int = field(default=0, compare=False)

    def sealed(self) -> bytes:
        """What the checksum is made over. No path holds a NUL."""
        parts = (
            self.path, self.kind, f"{self.mode:o}", str(self.uid), str(self.gid), str(self.size), str(self.mtime),
            self.content, self.link, self.attributes,
        )  # fmt: skip
        return b"\0".join(os.fsencode(part) for part in parts) + b"\0\n"

    def text(self) -> str:
        return json.dumps(
            [self.path, self.kind, self.mode, self.uid, self.gid, self.size, self.mtime, self.content, self.link,
             self.attributes, self.inode, self.ctime], separators=(",", ":")
        )  # fmt: skip


@dataclass
class Total:
    """The sum of a manifest: regular files and their bytes (hard links once), all entries, the checksum."""

    files: int = 0
    bytes: int = 0
    entries: int = 0
    checksum: str = ""

    def as_dict(self) -> dict[str, object]:
        return {"files": self.files, "bytes": self.bytes, "entries": self.entries, "checksum": self.checksum}


def read(path: str) -> Iterator[Line]:
    """The lines of a manifest's file. Raises NodeError where it is damaged."""
    try:
        with gzip.open(path, "rt", encoding="ascii") as stream:
            for text in stream:
                yield Line(*json.loads(text))
    except (EOFError, ValueError, TypeError, OSError) as error:
        raise NodeError(f"{path} cannot be read: {error}") from error


def _content(handle: int, size: int) -> str:
    """A checksum over the checksums of a file's blocks: the same whether zeros are written or are a hole.

    Holes are not read; a sparse file of a terabyte costs no more than what is in it.
    """
    digest, at = hashlib.sha256(), 0
    while at < size:
        try:
            data = os.lseek(handle, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            data = size
        for _ in range((min(data, size) - at) // BLOCK):
            digest.update(_ZEROS)
            at += BLOCK
        if at >= size:
            break
        block = os.pread(handle, BLOCK, at)
        if not block:
            break
        digest.update(hashlib.sha256(block).digest())
        at += len(block)
    return digest.hexdigest()


def _order(path: str) -> tuple[bytes, ...]:
    """Where a path comes in the walk."""
    return tuple(os.fsencode(path).split(b"/"))


class _Earlier:
    """What an earlier manifest says, asked in the order of the walk: neither of the two has to fit into memory."""

    def __init__(self, found: Iterator[Line]) -> None:
        self._found = found
        self._next: Line | None = None
        self._done = False

    def content(self, path: str, facts: os.stat_result) -> str | None:
        """The checksum of a file that has not changed: nothing changes a file without changing its ctime."""
        wanted = _order(path)
        while not self._done and (self._next is None or _order(self._next.path) < wanted):
            self._next = next(self._found, None)
            self._done = self._next is None
        line = self._next
        if line is None or line.path != path or not line.content:
            return None
        now = (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        return line.content if (line.inode, line.size, line.mtime, line.ctime) == now else None


class _Reader:
    """Turns entries into lines; knows which inodes it has seen, and what an earlier manifest says of them."""

    def __init__(self, owner: Owner, earlier: _Earlier) -> None:
        self._owner = owner
        self._earlier = earlier
        self._first: dict[tuple[int, int], str] = {}

    def line(self, entry: Entry, path: str) -> Line:
        facts = entry.facts
        kind = _KINDS.get(stat.S_IFMT(facts.st_mode), "?")
        mode, uid, gid = stat.S_IMODE(facts.st_mode), self._owner(facts.st_uid), self._owner(facts.st_gid)
        if kind == "l":
            return Line(path, kind, 0, uid, gid, link=os.fsdecode(os.readlink(entry.name, dir_fd=entry.at)))
        if kind in "cb":
            return Line(path, kind, mode, uid, gid, size=facts.st_rdev)
        if kind not in "fd":
            return Line(path, kind, mode, uid, gid)
        if kind == "f" and facts.st_nlink > 1:
            key = (facts.st_dev, facts.st_ino)
            first = self._first.setdefault(key, path)
            if first != path:
                return Line(path, "h", mode, uid, gid, link=first, inode=facts.st_ino)
        handle = os.open(
            entry.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOATIME, dir_fd=entry.at
        )
        try:
            attributes = _attributes(handle)
            if kind == "d":
                return Line(path, kind, mode, uid, gid, attributes=attributes)
            content = self._earlier.content(path, facts) or _content(handle, facts.st_size)
        finally:
            os.close(handle)
        return Line(path, kind, mode, uid, gid, facts.st_size, facts.st_mtime_ns, content, "", attributes,
                    facts.st_ino, facts.st_ctime_ns)  # fmt: skip


def _attributes(handle: int) -> str:
    """A checksum of the extended attributes, without those that a host's policy sets; empty where there are none."""
    try:
        names = sorted(name for name in os.listxattr(handle) if name != "security.selinux")
    except OSError:
        return ""
    digest = hashlib.sha256()
    for name in names:
        value = os.getxattr(handle, name)
        digest.update(os.fsencode(name) + b"\0" + str(len(value)).encode() + b"\0" + value)
    return digest.hexdigest()[:32] if names else ""


def lines(
    top: str,
    nested: Mapping[str, str] | None = None,
    *,
    owner: Owner = lambda one: one,
    earlier: Iterator[Line] | None = None,
) -> Iterator[Line]:
    """The lines of everything below the directory ``top``, after one for ``top`` itself (path ``.``).

    ``nested``: path below ``top`` → where the snapshot of the subvolume that was there lies. One that is not among
    them is an error, because it would be missing in the backup. ``owner`` translates ids.
    """
    reader = _Reader(owner, _Earlier(iter(()) if earlier is None else earlier))
    rest = dict(nested or {})
    handle = open_directory(top)
    try:
        yield _top(handle, ".", owner)
        yield from _below(handle, "", rest, reader, owner)
    finally:
        os.close(handle)


def single(place: str, *, owner: Owner = lambda one: one) -> Line:
    """The line of one entry that is no directory, as if it were all there is (path ``.``); ``owner`` translates ids."""
    above, name = os.path.split(place)
    handle = open_directory(above)
    try:
        entry = Entry(b".", os.fsencode(name), handle, os.stat(name, dir_fd=handle, follow_symlinks=False))
        return _Reader(owner, _Earlier(iter(()))).line(entry, ".")
    finally:
        os.close(handle)


def _top(handle: int, path: str, owner: Owner) -> Line:
    facts = os.fstat(handle)
    return Line(path, "d", stat.S_IMODE(facts.st_mode), owner(facts.st_uid), owner(facts.st_gid),
                attributes=_attributes(handle))  # fmt: skip


def _below(top: int, prefix: str, rest: dict[str, str], reader: _Reader, owner: Owner) -> Iterator[Line]:
    for entry in walk(top, _enter):
        path = prefix + os.fsdecode(entry.path)
        yield from _subvolumes(prefix, path, rest, reader, owner)
        if entry.is_directory and entry.facts.st_ino == PLACEHOLDER_INODE:
            if path not in rest:
                raise NodeError(f"{path!r} is a subvolume of its own that this backup does not hold")
            yield from _subvolume(path, rest, reader, owner)
        else:
            yield reader.line(entry, path)
    yield from _subvolumes(prefix, None, rest, reader, owner)


def _subvolumes(prefix: str, before: str | None, rest: dict[str, str], reader: _Reader, owner: Owner) -> Iterator[Line]:
    """Nested subvolumes that come before a path: btrfs send leaves their empty directories out, so a copy has none."""
    while True:
        own = [path for path in rest if path.startswith(prefix) and (before is None or _order(path) < _order(before))]
        if not own:
            return
        yield from _subvolume(min(own, key=_order), rest, reader, owner)


def _subvolume(path: str, rest: dict[str, str], reader: _Reader, owner: Owner) -> Iterator[Line]:
    handle = open_directory(rest.pop(path))
    try:
        yield _top(handle, path, owner)
        yield from _below(handle, path + "/", rest, reader, owner)
    finally:
        os.close(handle)


def _enter(entry: Entry, parent: os.stat_result) -> bool:
    if entry.facts.st_dev != parent.st_dev and entry.facts.st_ino != PLACEHOLDER_INODE:
        raise NodeError(f"{os.fsdecode(entry.path)!r} lies on another file system")
    return same_file_system(entry, parent)


def total(found: Iterator[Line], write: Callable[[str], object] = lambda text: None) -> Total:
    """Add a manifest's lines up; ``write`` gets each as text."""
    result, digest = Total(), hashlib.sha256()
    for line in found:
        digest.update(line.sealed())
        result.entries += 1
        if line.kind == "f":
            result.files += 1
            result.bytes += line.size
        write(line.text() + "\n")
    result.checksum = digest.hexdigest()
    return result


def compare(expected: Iterator[Line], found: Iterator[Line], most: int = 5) -> list[str]:
    """How what was found differs from what was expected, in words; empty where it is the same."""
    differences: list[str] = []
    for want, have in _zip(expected, found):
        if want == have:
            continue
        differences.append(_difference(want, have))
        if len(differences) >= most or want is None or have is None or want.path != have.path:
            break
    return differences


def _zip(one: Iterator[Line], other: Iterator[Line]) -> Iterator[tuple[Line | None, Line | None]]:
    while True:
        left, right = next(one, None), next(other, None)
        if left is None and right is None:
            return
        yield left, right


def _difference(want: Line | None, have: Line | None) -> str:
    if want is None or have is None or want.path != have.path:
        expected = "nothing more" if want is None else repr(want.path)
        return f"expected {expected}, found {'nothing more' if have is None else repr(have.path)}"
    names = ("kind", "mode", "uid", "gid", "size", "mtime", "content", "link", "attributes")
    words = [name for name in names if getattr(want, name) != getattr(have, name)]
    return f"{have.path!r} differs in {', '.join(words)}"

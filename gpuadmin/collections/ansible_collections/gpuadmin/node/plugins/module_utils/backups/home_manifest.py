"""What is in a home, file by file, and one checksum over it that a restored home can be held against.

A line per entry in the order of the walk. The checksum covers paths, kinds, modes, owners, sizes, times of change,
targets, extended attributes and contents; it does not cover inode numbers, times of directories, and ctime, which no
copy can have. Nested subvolumes count as the directories that they look like.

Sets of format 1 have other checksums of contents (``extents.old_digest``), and none of attributes of what is neither
file nor directory; home_reader's ``form`` says which are wanted.

In its file a manifest costs what the home holds: a line has of its path what the line before has not, and a hard link
names its first line by number. Sets before format 3 have whole paths in each line; both are read.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO

from ..budget import Budget, unlimited
from ..errors import NodeError, in_words

FORM = 2
_LONGEST = 1 << 24  # bytes of a line: two paths of budget.PATH, escaped
_HEAD = b'{"manifest":3}\n'


@dataclass(frozen=True)
class Line:
    """One entry. ``link``: a symbolic link's target, or for a further hard link the path that came first.

    ``number``: of a further hard link, the place of the line that came first; of a file that may have some, its own.
    """

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
    number: int = field(default=0, compare=False)

    def sealed(self) -> bytes:
        """What the checksum is made over. No path holds a NUL."""
        parts = (
            self.path, self.kind, f"{self.mode:o}", str(self.uid), str(self.gid), str(self.size), str(self.mtime),
            self.content, self.link, self.attributes,
        )  # fmt: skip
        return b"\0".join(os.fsencode(part) for part in parts) + b"\0\n"


@dataclass
class Total:
    """The sum of a manifest: regular files and their bytes (hard links once), all entries, the checksum."""

    files: int = 0
    bytes: int = 0
    entries: int = 0
    checksum: str = ""


class _Front:
    """Shortens paths: the leading directories that a path shares with the one before become a number."""

    def __init__(self) -> None:
        self._path = ""
        self._ends: list[int] = []  # where each part of the path before ends

    def _set(self, path: str, shared: int) -> None:
        del self._ends[shared:]
        at = self._ends[-1] + 1 if self._ends else 0
        for part in path[at:].split("/"):
            self._ends.append(at + len(part))
            at += len(part) + 1
        self._path = path

    def shorten(self, path: str) -> tuple[int, str]:
        """How many parts the path shares with the one before, and the rest."""
        least, most = 0, len(self._ends)
        while least < most:
            half = (least + most + 1) // 2
            end = self._ends[half - 1]
            same = path[end : end + 1] == "/" and path[:end] == self._path[:end]
            least, most = (half, most) if same else (least, half - 1)
        self._set(path, least)
        return least, path[self._ends[least - 1] + 1 :] if least else path

    def lengthen(self, shared: int, rest: str) -> str:
        if not 0 <= shared <= len(self._ends):
            raise ValueError("a path shares more than there is")
        path = f"{self._path[: self._ends[shared - 1]]}/{rest}" if shared else rest
        self._set(path, shared)
        return path


class Writer:
    """Writes lines to a stream of bytes, as ``read`` reads them."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._front = _Front()
        write(_HEAD)

    def __call__(self, line: Line) -> None:
        shared, rest = self._front.shorten(line.path)
        values = (
            shared, rest, line.kind, line.mode, line.uid, line.gid, line.size, line.mtime, line.content,
            line.number if line.kind in "fh" else line.link, line.attributes, line.inode, line.ctime,
        )  # fmt: skip
        text = json.dumps(values, ensure_ascii=False, separators=(",", ":")) + "\n"
        self._write(text.encode("utf-8", "surrogateescape"))


def read(path: str | IO[bytes], budget: Budget | None = None) -> Iterator[Line]:
    """The lines of a manifest's file, which may be open. Raises NodeError if it is damaged, OverBudget if it cannot be
    an honest one.
    """
    budget = budget or unlimited()
    try:
        with gzip.open(path, "rb") as stream:
            first = stream.readline(_LONGEST)
            if first == _HEAD:
                yield from _lines(stream, budget)
                return
            while first:
                line = Line(*json.loads(first))
                budget.spend(line.path.encode("utf-8", "surrogateescape"))
                yield line
                first = stream.readline(_LONGEST)
    except (EOFError, LookupError, ValueError, TypeError, AttributeError, OSError, RecursionError, zlib.error) as error:
        raise NodeError(f"{path} cannot be read: {in_words(error)}") from error


def _lines(stream: gzip.GzipFile, budget: Budget) -> Iterator[Line]:
    front, firsts, count = _Front(), dict[int, str](), 0
    while text := stream.readline(_LONGEST):
        shared, rest, kind, mode, uid, gid, size, mtime, content, link, attributes, inode, ctime = json.loads(
            text.decode("utf-8", "surrogateescape")
        )
        path, number = front.lengthen(shared, rest), 0
        name = path.encode("utf-8", "surrogateescape")
        budget.spend(name)  # guard: short lines of long paths are counted
        if kind in ("f", "h"):
            number, link = link, ""
            if kind == "h":
                link = firsts[number]
            elif number:
                budget.hold(name * 4)  # as home_reader holds it
                firsts[count] = path
        yield Line(path, kind, mode, uid, gid, size, mtime, content, link, attributes, inode, ctime, number)
        count += 1


def total(found: Iterator[Line], write: Callable[[Line], object] = lambda line: None) -> Total:
    """Add a manifest's lines up; ``write`` gets each."""
    result, digest = Total(), hashlib.sha256()
    for line in found:
        digest.update(line.sealed())
        result.entries += 1
        if line.kind == "f":
            result.files += 1
            result.bytes += line.size
        write(line)
    result.checksum = digest.hexdigest()
    return result


def compare(expected: Iterator[Line], found: Iterator[Line], most: int = 5) -> list[str]:
    """How what was found differs from what was expected, in words; empty if it is the same."""
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
    fields = [name for name in names if getattr(want, name) != getattr(have, name)]
    return f"{have.path!r} differs in {', '.join(fields)}"

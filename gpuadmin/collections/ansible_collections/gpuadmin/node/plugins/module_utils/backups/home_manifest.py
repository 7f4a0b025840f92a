"""What is in a home, file by file, and one checksum over it that a restored home can be held against.

A line per entry in the order of the walk. The checksum covers paths, kinds, modes, owners, sizes, times of change,
targets, extended attributes and contents; it does not cover inode numbers, times of directories, and ctime, which no
copy can have. Nested subvolumes count as the directories that they look like.

Sets of format 1 have other checksums of contents (``extents.old_digest``), and none of attributes of what is neither
file nor directory; home_reader's ``form`` says which are wanted.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..errors import NodeError, in_words

FORM = 2
_LONGEST = 1 << 24  # characters of a line: two paths of budget.PATH, escaped


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

    def as_dict(self) -> dict[str, Any]:
        return {"files": self.files, "bytes": self.bytes, "entries": self.entries, "checksum": self.checksum}


def read(path: str) -> Iterator[Line]:
    """The lines of a manifest's file. Raises NodeError where it is damaged."""
    try:
        with gzip.open(path, "rt", encoding="ascii") as stream:
            while text := stream.readline(_LONGEST):
                yield Line(*json.loads(text))
    except (EOFError, ValueError, TypeError, OSError, zlib.error) as error:
        raise NodeError(f"{path} cannot be read: {in_words(error)}") from error


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
    fields = [name for name in names if getattr(want, name) != getattr(have, name)]
    return f"{have.path!r} differs in {', '.join(fields)}"

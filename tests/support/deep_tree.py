"""Trees that no path reaches, made and read by descriptors; nothing here is gpuadmin's own code."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path


def descend(top: Path | str, parts: list[str], *, make: bool = False) -> int:
    """Open a directory below ``top``, step by step."""
    here = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for part in parts:
        if make:
            os.mkdir(part, dir_fd=here)
        inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
        os.close(here)
        here = inner
    return here


def plant(top: Path, parts: list[str], content: bytes = b"deep") -> None:
    """A file ``bottom`` in a directory that is made for it."""
    here = descend(top, parts, make=True)
    with os.fdopen(os.open("bottom", os.O_WRONLY | os.O_CREAT, dir_fd=here), "wb") as stream:
        stream.write(content)
    os.close(here)


def bottom(top: Path | str, parts: list[str]) -> bytes:
    here = descend(top, parts)
    with os.fdopen(os.open("bottom", os.O_RDONLY, dir_fd=here), "rb") as stream:
        content = stream.read()
    os.close(here)
    return content


def listing(top: Path) -> dict[str, tuple[object, ...]]:
    """All that a copy must keep of a tree of ordinary paths, the times of directories, too."""
    found: dict[str, tuple[object, ...]] = {}
    inodes: dict[int, str] = {}
    for path in [top, *sorted(top.rglob("*"))]:
        facts = path.lstat()
        attributes = {
            name: os.getxattr(path, name, follow_symlinks=False) for name in os.listxattr(path, follow_symlinks=False)
        }
        content: object = None
        if stat.S_ISLNK(facts.st_mode):
            content = os.readlink(path)  # noqa: PTH115  a target need not be a path
        elif stat.S_ISREG(facts.st_mode):
            first = inodes.setdefault(facts.st_ino, str(path.relative_to(top)))
            small = facts.st_size < 1 << 26
            content = (first, facts.st_size, hashlib.sha256(path.read_bytes()).hexdigest() if small else "large")
        found[str(path.relative_to(top))] = (
            facts.st_mode, facts.st_uid, facts.st_gid, facts.st_rdev, facts.st_mtime_ns, attributes, content,
        )  # fmt: skip
    return found

"""Holding an archive against the tree that it was made of: read once, entry by entry, holes skipped on both sides.

tar --compare reads every hole of a sparse file (7 EiB of them cost an ordinary person nothing), opens what it compares
by its whole path, and does not see what the archive lacks.
"""

from __future__ import annotations

import errno
import math
import os
import stat
import tarfile
from collections.abc import Callable, Generator
from contextlib import closing
from decimal import Decimal
from typing import IO, Any

from .. import btrfs
from ..attributes import attribute_names
from ..budget import ENTRIES, Budget
from ..errors import NodeError
from ..safe_walk import Entry, same_mount, walk

BLOCK = 1 << 20
_XATTR = "SCHILY.xattr."  # ACLs are there as well, as the kernel has them, besides SCHILY.acl
_KINDS = {stat.S_IFDIR: "isdir", stat.S_IFREG: "isreg", stat.S_IFLNK: "issym", stat.S_IFIFO: "isfifo",
          stat.S_IFCHR: "ischr", stat.S_IFBLK: "isblk"}  # fmt: skip


def members(path: str) -> Generator[tuple[bytes, Entry], None, None]:
    """What an archive of ``path`` has, sorted as tar does it: names there, and entries. Sockets it leaves out.

    Raises OverBudget if it is more than a home may hold: of a directory all names are held at once, by tar as well.
    """
    budget = Budget(math.inf, ENTRIES, setting=False)
    above, name = os.path.split(os.fsencode(path))
    at = btrfs.open_directory(above)
    try:
        facts = os.stat(name, dir_fd=at, follow_symlinks=False)
        yield b"./" + name, Entry(b"", name, at, facts)
        if not stat.S_ISDIR(facts.st_mode):
            return
        handle = btrfs.open_directory(name, at)
        try:
            with closing(
                walk(
                    handle,
                    same_mount,
                    budget=budget,  # guard: what is packed has a budget of entries
                )
            ) as entries:
                for entry in entries:
                    if not stat.S_ISSOCK(entry.facts.st_mode):
                        yield b"./" + name + b"/" + entry.path, entry
        finally:
            os.close(handle)
    finally:
        os.close(at)


def compare(stream: IO[bytes], path: str, tick: Callable[[], None]) -> None:
    """Given a tar stream whose names are sorted, raise NodeError with the first thing in which ``path`` differs.

    ``tick`` is called all the time, and raises to end it.
    """
    first: dict[tuple[int, int], bytes] = {}  # hard links
    try:
        with tarfile.open(
            fileobj=stream, mode="r|", bufsize=BLOCK, encoding="utf-8", errors="surrogateescape"
        ) as archive:
            with closing(members(path)) as entries:
                for name, entry in entries:
                    tick()
                    member = archive.next()
                    archive.members.clear()  # type: ignore[attr-defined]  # typeshed has no members; it would keep all of them
                    if member is None or _bytes(member.name) != name:  # guard: an archive that has less than the tree
                        raise NodeError(f"the archive lacks {os.fsdecode(name)!r}")
                    difference = _difference(archive, member, name, entry, first, tick)
                    if difference:
                        raise NodeError(f"{os.fsdecode(name)!r} {difference}")
            more = archive.next()
            if more is not None:  # guard: an archive that has more than the tree
                raise NodeError(f"{more.name!r} is in the archive and not there any more")
        while stream.read(BLOCK):
            tick()
    except (tarfile.TarError, EOFError) as error:
        raise NodeError(f"the archive cannot be read back: {error}") from error


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _difference(
    archive: tarfile.TarFile, member: tarfile.TarInfo, name: bytes, entry: Entry,
    first: dict[tuple[int, int], bytes], tick: Callable[[], None],
) -> str | None:  # fmt: skip
    facts = entry.facts
    inode = facts.st_dev, facts.st_ino
    if member.islnk():
        return (
            None
            if first.get(inode) == _bytes(member.linkname)
            else "is no longer a hard link to the same file"  # guard: hard links in an archive
        )
    # guard: the kind of what is in an archive
    if not getattr(member, _KINDS[stat.S_IFMT(facts.st_mode)])():
        return "is not what it is in the archive"
    if not entry.is_directory and facts.st_nlink > 1:
        first.setdefault(inode, name)
    if (member.uid, member.gid) != (facts.st_uid, facts.st_gid):  # guard: owners in an archive
        return "has another owner than in the archive"
    if not _same_attributes(member, entry):  # guard: an archive has the attributes and ACLs
        return "has other attributes or another ACL than in the archive"
    if stat.S_ISLNK(facts.st_mode):
        target = os.readlink(entry.name, dir_fd=entry.at)
        # guard: where a link in an archive leads -> None
        return None if _bytes(member.linkname) == os.fsencode(target) else "leads elsewhere than in the archive"
    if member.mode & 0o7777 != stat.S_IMODE(facts.st_mode):  # guard: modes in an archive
        return "has another mode than in the archive"
    if stat.S_ISCHR(facts.st_mode) or stat.S_ISBLK(facts.st_mode):
        device = os.major(facts.st_rdev), os.minor(facts.st_rdev)
        # guard: which device an archive has -> None
        return None if (member.devmajor, member.devminor) == device else "is another device than in the archive"
    if not stat.S_ISREG(facts.st_mode):
        return None
    if (
        member.size != facts.st_size  # guard: sizes in an archive
        or _modified(member) != facts.st_mtime_ns  # guard: times in an archive
    ):
        return "was changed while it was packed"
    return _content(archive, member, entry, tick)


def _same_attributes(member: tarfile.TarInfo, entry: Entry) -> bool:
    """Whether the archive has the extended attributes, including ACLs and capabilities, and no others."""
    packed = {
        _keyword(_bytes(name[len(_XATTR) :])): _bytes(value)
        for name, value in member.pax_headers.items()
        if name.startswith(_XATTR)
    }
    packed.pop(b"security.selinux", None)
    handle = os.open(entry.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=entry.at)
    try:
        place = f"/proc/self/fd/{handle}"
        there = {os.fsencode(name): os.getxattr(place, name) for name in attribute_names(place)}
    finally:
        os.close(handle)
    return packed == there


def _keyword(name: bytes) -> bytes:
    """The name of an attribute: tar writes `=` and `%` in it as `%3D` and `%25`."""
    return name.replace(b"%3D", b"=").replace(b"%25", b"%")


def _modified(member: tarfile.TarInfo) -> int:
    """In nanoseconds; tarfile itself makes a float of it."""
    text = member.pax_headers.get("mtime")
    return int(member.mtime) * 10**9 if text is None else int(Decimal(text) * 10**9)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo, entry: Entry, tick: Callable[[], None]) -> str | None:
    """Why a file has not the bytes that the archive has. What the archive has no data for must be zeros."""
    packed: Any = archive.fileobj
    packed.seek(member.offset_data)  # forwards: its data follow one another, whatever holes lie between them
    # O_NONBLOCK: somebody may hold a lease on it, for whose end root would wait
    handle = os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=entry.at)
    try:
        facts = os.fstat(handle)
        if (facts.st_dev, facts.st_ino) != (entry.facts.st_dev, entry.facts.st_ino):
            return "was exchanged while it was compared"
        sparse: Any = member.sparse  # (offset, size) of each segment; typeshed takes it for bytes
        segments = [(0, member.size)] if sparse is None else sparse
        end = 0
        for start, length in segments:
            if not _zeros(handle, end, start, tick):
                return "has other content than in the archive"
            end = start
            while end < start + length:
                tick()
                block = packed.read(min(BLOCK, start + length - end))
                if (
                    not block
                    # guard: content in an archive
                    or os.pread(handle, len(block), end) != block
                ):
                    return "has other content than in the archive"
                end += len(block)
        # guard: what an archive ends before is zeros -> None
        return None if _zeros(handle, end, member.size, tick) else "has other content than in the archive"
    finally:
        os.close(handle)


def _zeros(handle: int, start: int, stop: int, tick: Callable[[], None]) -> bool:
    """Whether a part of a file reads as zeros; its holes are not read."""
    while start < stop:
        try:
            start = os.lseek(handle, start, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return True  # nothing but a hole up to the end
            raise
        hole = min(os.lseek(handle, start, os.SEEK_HOLE), stop)
        while start < hole:
            tick()
            block = os.pread(handle, min(BLOCK, hole - start), start)
            if (
                not block
                # guard: what an archive has as a hole
                or block.count(0) != len(block)
            ):
                return False
            start += len(block)
    return True

"""Makes what sending.py sends, in a directory that root owns: by single names, relative to an open directory.

The sender may send anything. No name leads out of the directory and no link is followed. It ends when the sender is
done, the budget is spent, or the disk is full.
"""

from __future__ import annotations

import base64
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .. import extents
from ..btrfs import open_directory
from ..budget import Budget
from ..errors import NodeError
from ..purge import purge
from ..safe_walk import identity
from .copy_stream import BOUNDS, Bounds, Room
from .copying import Owner, give
from .wire import Link

_ID = re.compile(r"[0-9]{1,20}-[0-9]{1,20}\Z")
_NODES = (stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK)
_RECORD = 2048  # bytes that whatever has a name takes beside its content


class Odd(NodeError):
    """A record that no gpuadmin sends."""


def take_manifest(link: Link, handle: int, most: int, bounds: Bounds = BOUNDS) -> None:
    """Write the manifest that arrives to the open file. Raises NodeError if it is too long or there is no room."""
    done, room = 0, Room(handle, bounds)
    while True:
        operation, _fields, data = link.get()
        if operation == "listed":
            return
        if operation == "wait":
            continue
        if operation != "manifest":
            raise Odd(f"{operation[:20]!r} is not part of a manifest")
        room.spend(len(data))
        done += len(data)
        # guard: a manifest that arrives is bounded
        if done > most:
            raise NodeError(f"its manifest is longer than {most} bytes")
        write_all(handle, data)


def write_all(handle: int, data: bytes, at: int | None = None) -> None:
    view, done = memoryview(data), 0
    while done < len(view):
        done += os.write(handle, view[done:]) if at is None else os.pwrite(handle, view[done:], at + done)


@contextmanager
def _in_words() -> Iterator[None]:
    """What a record lacks, or has in another shape, is a record that cannot be read."""
    try:
        yield
    except (
        # guard: a record without one of its fields is odd
        LookupError,
        TypeError,
        ValueError,
        OverflowError,
    ) as error:
        raise Odd(f"a record cannot be read: {error}") from error


class Applier:
    """Fills the open directory ``top``. ``links``: a directory of root's beside it, for files with several names."""

    def __init__(
        self,
        top: int,
        links: int,
        link: Link,
        budget: Budget,
        *,
        owner: Owner = lambda one: one,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self._top, self._here = top, os.dup(top)
        self._links = links
        self._link = link
        self._budget = budget
        self._owner = owner
        self._room = Room(top, bounds)
        self._above = [os.fstat(top)]
        self._path = [b""]
        self._file: int | None = None  # what is being made or changed
        self._name = b""
        self._size = self._done = 0

    def run(self) -> Mapping[str, Any]:
        """Apply all records; return what the top itself must be like (``finish``). Raises NodeError, OSError."""
        try:
            with _in_words():
                return self._applied()
        finally:
            os.close(self._here)
            if self._file is not None:
                os.close(self._file)

    def _applied(self) -> Mapping[str, Any]:
        while True:
            operation, fields, data = self._link.get()
            # guard: room is left
            self._room.spend(len(data) + _RECORD)
            if operation == "wait":
                continue
            if operation == "end":
                if len(self._above) != 1 or self._file is not None:
                    raise Odd("it ended in the middle of something")
                return fields
            handler = self._HANDLERS.get(operation)
            if (
                handler is None
                # guard: a record stands where it has a meaning
                or (self._file is None) == (operation in self._OF_FILES)
            ):
                raise Odd(f"{operation[:20]!r} is not understood here")
            handler(self, fields, data)

    def _named(self, fields: Mapping[str, Any]) -> bytes:
        """A single name in the directory that is open."""
        name = os.fsencode(fields["name"]) if isinstance(fields.get("name"), str) else b""
        # guard: a record names what is in the open directory
        if name in (b"", b".", b"..") or b"/" in name or b"\0" in name or len(name) > 255:
            raise Odd("a record without a name")
        # guard: what arrives is counted
        self._budget.spend(self._path[-1] + name)
        return name

    def _mkdir(self, fields: Mapping[str, Any], _data: bytes) -> None:
        name = self._named(fields)
        os.mkdir(name, 0o700, dir_fd=self._here)
        self._into(name)

    def _enter(self, fields: Mapping[str, Any], _data: bytes) -> None:
        self._into(self._named(fields))

    def _into(self, name: bytes) -> None:
        inner = open_directory(name, self._here)
        os.close(self._here)
        self._here = inner
        self._above.append(os.fstat(inner))
        self._path.append(self._path[-1] + name + b"/")

    def _leave(self, fields: Mapping[str, Any], _data: bytes) -> None:
        if len(self._above) == 1:
            # guard: nothing is left above the home
            raise Odd("there is nothing above")
        self._given(self._here, fields)
        outer = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._here)
        os.close(self._here)
        self._here = outer
        self._above.pop()
        self._path.pop()
        if identity(os.fstat(outer)) != identity(self._above[-1]):
            raise NodeError("a directory was moved while it was filled")

    def _create(self, fields: Mapping[str, Any], _data: bytes) -> None:
        self._open(fields, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def _patch(self, fields: Mapping[str, Any], _data: bytes) -> None:
        self._open(fields, os.O_RDWR)

    def _open(self, fields: Mapping[str, Any], flags: int) -> None:
        name, size = self._named(fields), _number(fields, "size")
        flags |= (
            os.O_NOFOLLOW  # guard: a file is changed through no link
            | os.O_NONBLOCK
            | os.O_CLOEXEC
        )
        self._file, self._name = os.open(name, flags, 0o600, dir_fd=self._here), name
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise Odd("what is changed is not a file")
        os.ftruncate(self._file, size)
        self._size, self._done = size, 0

    def _ahead(self, at: int, length: int) -> None:
        """A record writes inside the file, and behind what was written before: no byte is written twice."""
        # guard: what is written is in the file
        if at < self._done or at + length > self._size:
            raise Odd("a record writes outside of its place")
        self._done = at + length

    def _data(self, fields: Mapping[str, Any], data: bytes) -> None:
        at = _number(fields, "at")
        self._ahead(at, len(data))
        assert self._file is not None
        write_all(self._file, data, at)

    def _hole(self, fields: Mapping[str, Any], _data: bytes) -> None:
        at, length = _number(fields, "at"), _number(fields, "length")
        self._ahead(at, length)
        assert self._file is not None
        extents.punch(self._file, at, length)

    def _meta(self, fields: Mapping[str, Any], _data: bytes) -> None:
        name = self._named(fields)
        self._file, self._name = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._here), name
        if stat.S_ISLNK(os.fstat(self._file).st_mode):
            raise Odd("a link leads to nothing that was given")
        self._size = self._done = 0

    def _node(self, fields: Mapping[str, Any], _data: bytes) -> None:
        name, kind = self._named(fields), _number(fields, "kind")
        if kind not in _NODES:
            raise Odd("a node of an unknown kind")
        os.mknod(name, kind | 0o600, _number(fields, "device"), dir_fd=self._here)
        self._file, self._name = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._here), name
        self._size = self._done = 0

    def _give(self, fields: Mapping[str, Any], _data: bytes) -> None:
        assert self._file is not None
        self._given(self._file, fields)
        os.close(self._file)
        self._file = None
        if "id" in fields:
            self._remember(self._name, fields)

    def _keep(self, fields: Mapping[str, Any], _data: bytes) -> None:
        self._remember(self._named(fields), fields)

    def _remember(self, name: bytes, fields: Mapping[str, Any]) -> None:
        if not stat.S_ISREG(os.stat(name, dir_fd=self._here, follow_symlinks=False).st_mode):
            raise Odd("what is kept is not a file")
        os.link(name, _id(fields), src_dir_fd=self._here, dst_dir_fd=self._links, follow_symlinks=False)

    def _further(self, fields: Mapping[str, Any], _data: bytes) -> None:
        name = self._named(fields)
        os.link(_id(fields), name, src_dir_fd=self._links, dst_dir_fd=self._here, follow_symlinks=False)

    def _symlink(self, fields: Mapping[str, Any], _data: bytes) -> None:
        name, target = self._named(fields), os.fsencode(fields["target"])
        os.symlink(target, name, dir_fd=self._here)
        uid, gid = self._owner(_number(fields, "uid")), self._owner(_number(fields, "gid"))
        os.chown(name, uid, gid, dir_fd=self._here, follow_symlinks=False)
        os.utime(name, ns=_times(fields), dir_fd=self._here, follow_symlinks=False)

    def _removed(self, fields: Mapping[str, Any], _data: bytes) -> None:
        done = purge(self._here, self._named(fields), lambda entry: None)
        if done.kept:
            raise NodeError(f"what is gone there stays here: {', '.join(done.words)}")

    def finish(self, fields: Mapping[str, Any]) -> None:
        """Give the top its owner, mode, times and attributes, as the last record says."""
        # guard: how the top is to be is read like a record
        with _in_words():
            self._given(self._top, fields)

    def _given(self, target: int, fields: Mapping[str, Any]) -> None:
        found = fields.get("attributes", {})
        if not isinstance(found, Mapping):
            raise Odd("attributes that are not valid")
        attributes = {str(name): base64.b64decode(value, validate=True) for name, value in found.items()}
        # guard: attributes take room, too
        self._room.spend(sum(map(len, attributes.values())))
        owner = self._owner(_number(fields, "uid")), self._owner(_number(fields, "gid"))
        give(f"/proc/self/fd/{target}", owner, attributes, _number(fields, "mode") & 0o7777, _times(fields))

    _OF_FILES = ("data", "hole", "give")
    _HANDLERS: Mapping[str, Callable[[Applier, Mapping[str, Any], bytes], None]] = {
        "mkdir": _mkdir, "enter": _enter, "leave": _leave, "file": _create, "patch": _patch, "data": _data,
        "hole": _hole, "meta": _meta, "node": _node, "give": _give, "keep": _keep, "link": _further,
        "symlink": _symlink, "remove": _removed,
    }  # fmt: skip


def _number(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise Odd(f"{name} is not a number")
    return value


def _times(fields: Mapping[str, Any]) -> tuple[int, int]:
    accessed, changed = fields["times"]
    if not isinstance(accessed, int) or not isinstance(changed, int):
        raise Odd("times are not numbers")
    return accessed, changed


def _id(fields: Mapping[str, Any]) -> str:
    value = fields.get("id")
    # guard: what is linked is named by numbers
    if not isinstance(value, str) or not _ID.match(value):
        raise Odd("id is not valid")
    return value

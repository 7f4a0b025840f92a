"""Sending a home in which somebody works: what vanishes, or changes under the hand, is left out, and comes later.

What was sent whole is noted down with the file's times and inode of before: what has these afterwards is what was sent.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from ansible_collections.gpuadmin.node.plugins.module_utils import extents
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.home_manifest import Line
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.sending import (
    READ,
    Sender,
    given,
    read_subvolume_id,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.wire import Link
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.safe_walk import Entry, identity, same_file_system, walk

_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class Live(Sender):
    """``note`` gets the line of each file that was sent whole. ``left``: how many entries were left out."""

    def __init__(self, link: Link, budget: Budget, note: Callable[[Line], object]) -> None:
        super().__init__(link, budget)
        self._note = note
        self._ends: list[dict[str, object]] = []  # what the directories are given in which the other host is
        self.left = 0

    def all(self, top: int) -> None:
        """Send everything below the open directory ``top``, and what it must be like itself."""
        entries = walk(top, same_file_system, leaving=True, budget=self._budget, skip=self._skipped, again=True)
        for entry in entries:
            above = entry.path.split(b"/")[:-1]
            self._up_to(above)
            if entry.leaving:
                continue
            if self._here != above:  # it could not be made there
                self.left += 1
                continue
            try:
                self._send(entry)
            except OSError:  # guard: what vanishes while it is sent ends nothing
                self.left += 1
        self._up_to([])
        self.end(top)

    def _skipped(self, _entry: Entry, _why: str) -> None:
        self.left += 1

    def _up_to(self, path: list[bytes]) -> None:
        """Leave directories until the other host is in one of that path. Somebody may have moved the others away."""
        while self._here != path[: len(self._here)]:
            self._link.put("leave", **self._ends.pop())
            self._here.pop()

    def _send(self, entry: Entry) -> None:
        """Nothing is said of an entry before it is open: what was begun has to be ended."""
        kind, name = stat.S_IFMT(entry.facts.st_mode), os.fsdecode(entry.name)
        if kind == stat.S_IFLNK:
            target = os.fsdecode(os.readlink(entry.name, dir_fd=entry.at))
            facts = entry.facts
            times = [facts.st_atime_ns, facts.st_mtime_ns]
            self._link.put("symlink", name=name, target=target, uid=facts.st_uid, gid=facts.st_gid, times=times)
            return
        handle = os.open(entry.name, READ if kind == stat.S_IFREG else _LOOK, dir_fd=entry.at)
        try:
            facts = os.fstat(handle)
            if identity(facts) != identity(entry.facts) or stat.S_IFMT(facts.st_mode) != kind:
                self.left += 1
                return
            ends = given(facts, handle if kind == stat.S_IFREG else f"/proc/self/fd/{handle}")
            if kind == stat.S_IFDIR:
                self._link.put("mkdir", name=name)
                self._here.append(entry.name)
                self._ends.append(ends)
            elif kind == stat.S_IFREG:
                self._file(entry, handle, facts, ends)
            else:
                self._link.put("node", name=name, kind=kind, device=facts.st_rdev)
                self._link.put("give", **ends)
        finally:
            os.close(handle)

    def _file(self, entry: Entry, handle: int, facts: os.stat_result, ends: dict[str, object]) -> None:
        name, linked = os.fsdecode(entry.name), facts.st_nlink > 1
        if linked and identity(facts) in self._seen:
            self._link.put("link", name=name, id=read_subvolume_id(facts))
            return
        self._refuse_shared(handle, facts.st_size)
        self._link.put("file", name=name, size=facts.st_size)
        found, whole = extents.Sum(), True
        try:
            for at, data in extents.pieces(handle, facts.st_size, self._budget):
                self._link.put("data", data, at=at)
                found.add(at, data)
        except OSError:  # it became shorter; a disk that cannot be read is told when all is compared
            self.left += 1
            whole = False
        self._link.put("give", **ends, **({"id": read_subvolume_id(facts)} if linked else {}))
        if linked:
            self._budget.hold(b"")
            self._seen.add(identity(facts))
        if whole:
            path = os.fsdecode(entry.path)
            self._note(Line(path, "f", stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid, facts.st_size,
                            facts.st_mtime_ns, found.value(), inode=facts.st_ino, ctime=facts.st_ctime_ns))  # fmt: skip

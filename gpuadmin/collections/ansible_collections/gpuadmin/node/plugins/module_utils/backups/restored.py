"""Whether what was restored is what was backed up: a home, or a part of one, is compared with the manifest."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import replace

from gpuadmin.common.records.backups import RestoreOrder

from .. import btrfs
from ..budget import unlimited
from ..errors import NodeError
from . import home_manifest, home_reader
from .backup_set import Backup
from .restore_plan import translated


def verify(order: RestoreOrder, backup: Backup, at: int, name: bytes, inner: str) -> home_manifest.Total:
    """Compare what was restored with the manifest, whose ids are made those that they were to become."""
    owner = translated(order, backup.homes[order.user].uid)

    def wanted() -> Iterator[home_manifest.Line]:
        for line in _part(backup, order.user, inner):
            # guard: what is restored is compared with the ids that it is to have -> (yield line)
            yield replace(line, uid=owner(line.uid), gid=owner(line.gid))

    def there() -> Iterator[home_manifest.Line]:
        if not stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            reader = home_reader.Reader(budget=unlimited(), form=backup.format)
            yield home_reader.single(at, name, ".", reader)
            return
        handle = btrfs.open_directory(name, at)
        try:
            yield from home_reader.lines(handle, budget=unlimited(), form=backup.format)
        finally:
            os.close(handle)

    expected = home_manifest.total(wanted())
    found = home_manifest.total(there())
    if expected.checksum != found.checksum:  # guard: a restore is compared with the manifest
        lines = home_manifest.compare(wanted(), there())
        raise NodeError(f"what was restored is not what was backed up: {', '.join(lines) or 'differs'}")
    return found


def _part(backup: Backup, user: str, inner: str) -> Iterator[home_manifest.Line]:
    """The lines of a part of a home, as if it were a home; hard links to what lies outside are files there."""
    if not inner:
        yield from home_manifest.read(backup.manifest(user))
        return
    first: dict[str, str] = {}
    wanted = _linked(backup, user, inner)
    contents: dict[str, home_manifest.Line] = {}
    for line in home_manifest.read(backup.manifest(user)):
        if line.path in wanted:
            contents[line.path] = line
        if line.path == inner:
            yield replace(contents[line.link] if line.kind == "h" else line, path=".")
        elif line.path.startswith(inner + "/"):
            path = line.path[len(inner) + 1 :]
            if line.kind == "h" and not line.link.startswith(inner + "/"):
                if line.link in first:
                    yield replace(line, path=path, link=first[line.link])
                else:
                    first[line.link] = path
                    yield replace(contents[line.link], path=path)
            elif line.kind == "h":
                yield replace(line, path=path, link=line.link[len(inner) + 1 :])
            else:
                yield replace(line, path=path)


def _linked(backup: Backup, user: str, inner: str) -> set[str]:
    """Files outside of a part that have a further name in it: only those have to be remembered."""
    return {
        line.link
        for line in home_manifest.read(backup.manifest(user))
        if line.kind == "h" and (line.path == inner or line.path.startswith(inner + "/"))
    }

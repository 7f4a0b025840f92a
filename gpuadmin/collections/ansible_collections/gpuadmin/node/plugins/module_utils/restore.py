"""Restoring from a backup: beside what is there, never over it, and held against the manifest before it gets its name.

A copy is made under a temporary name by cp (which keeps owners, modes, times, links, holes and attributes, and shares
the blocks where the file system can), its owners are translated where the person's uid has changed, and it is
compared with the manifest.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace

from . import backup_set, btrfs, home_manifest, mounts, packing
from .backup_set import Backup
from .descend import Entry, walk
from .errors import NodeError
from .files import flocked, make_directory, sync_filesystem
from .purge import purge
from .restore_plan import RESTORING, Plan, Request, compute, inner_path, owners, translated


def execute(request: Request, mountinfo: str | None = None) -> dict[str, object]:
    """Restore; return where it is and what was restored. Whatever stops it, nothing that was there is touched."""
    table = mounts.read_mountinfo() if mountinfo is None else mountinfo
    try:
        with flocked(backup_set.LOCK):
            plan, backup = compute(request, table)
            if request.mode == "archive":
                return _archive(request, plan, backup)
            part = _workplace(request, plan)
            _discard(part)
            try:
                total = _copy(request, backup, part)
                _into_place(request, plan, part)
            except BaseException:
                _discard(part)
                raise
            return {"target": plan.target, "aside": plan.aside, "backup": backup.name, **total.as_dict()}
    except OSError as error:
        raise NodeError(f"nothing was restored: {error}") from error


def _discard(path: str) -> None:
    handle = btrfs.open_directory(os.path.dirname(path))
    try:
        purge(handle, os.fsencode(os.path.basename(path)), lambda entry: None)
    finally:
        os.close(handle)


def _workplace(request: Request, plan: Plan) -> str:
    """Where the copy is made: in a directory that root alone can enter, on the file system that it is for."""
    if request.mode == "directory":
        return os.path.join(os.path.dirname(plan.target), f".{os.path.basename(plan.target)}.gpuadmin-part")
    place = os.path.join(request.root, RESTORING)
    make_directory(place, 0o700, os.geteuid(), os.getegid())
    backup_set.check_directory(place)
    return os.path.join(place, request.user)


def _open_above(request: Request, plan: Plan) -> int:
    """The directory that the copy goes into, reached from the homes' root through no link: its owner may be at work."""
    above = os.path.dirname(plan.target)
    if request.mode == "directory":
        return btrfs.open_directory(above)
    handle = btrfs.open_directory(request.root)
    for part in os.path.relpath(above, request.root).split("/"):
        if part != ".":
            inner = btrfs.open_directory(part, handle)
            os.close(handle)
            handle = inner
    return handle


def _into_place(request: Request, plan: Plan, part: str) -> None:
    sync_filesystem(os.path.dirname(part))
    above = _open_above(request, plan)
    name = os.path.basename(plan.target)
    try:
        if plan.aside is not None:
            os.rename(name, os.path.basename(plan.aside), src_dir_fd=above, dst_dir_fd=above)
        try:
            os.stat(name, dir_fd=above, follow_symlinks=False)
            raise NodeError(f"{plan.target} has just appeared; nothing was replaced")
        except FileNotFoundError:
            os.rename(part, name, dst_dir_fd=above)
        os.fsync(above)
    finally:
        os.close(above)


def _source(backup: Backup, user: str, inner: str) -> tuple[str, dict[str, str]]:
    """Where a part of a home lies in the set, and the subvolumes inside of that part, relative to it."""
    top, nested = backup_set.source(backup, user)
    rest = inner
    for prefix in sorted(nested, key=len, reverse=True):
        if inner == prefix or inner.startswith(prefix + "/"):
            top, rest = nested[prefix], inner[len(prefix) :].lstrip("/")
            break
    _no_links(top, rest, inner)
    below = {os.path.relpath(path, inner or "."): where for path, where in nested.items()
             if path != inner and (not inner or path.startswith(inner + "/"))}  # fmt: skip
    return os.path.join(top, rest) if rest else top, below


def _no_links(top: str, rest: str, inner: str) -> None:
    """No directory on the way may be a symbolic link: it would lead out of the backup."""
    here, parts = top, rest.split("/") if rest else []
    for number, part in enumerate(parts):
        here = os.path.join(here, part)
        try:
            facts = os.lstat(here)
        except (FileNotFoundError, NotADirectoryError):
            raise NodeError(f"{inner} is not in the backup") from None
        if stat.S_ISLNK(facts.st_mode) and number < len(parts) - 1:
            raise NodeError(f"{inner} leads through a symbolic link")


def _copy(request: Request, backup: Backup, part: str) -> home_manifest.Total:
    inner = inner_path(request.path)
    home = backup.homes[request.user]
    place, nested = _source(backup, request.user, inner)
    _cp(place, part)
    for path, where in sorted(nested.items()):
        target = os.path.join(part, path)
        if os.path.lexists(target):
            os.rmdir(target)  # the empty directory that stands for a subvolume in a snapshot
        _cp(where, target)
    if owners(request, home.uid):
        _give(part, translated(request, home.uid))
    return _verify(request, backup, part, inner)


def _cp(source: str, target: str) -> None:
    command = ("cp", "--archive", "--reflink=auto", "--sparse=auto", "--no-target-directory", "--", source, target)
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                            check=False)  # fmt: skip
    if result.returncode != 0:
        raise NodeError(f"'{' '.join(command)}' ended with {result.returncode}: {result.stderr.strip()[-300:]}")


def _give(top: str, owner: home_manifest.Owner) -> None:
    facts = os.lstat(top)
    if not stat.S_ISDIR(facts.st_mode):
        above, name = os.path.split(top)
        handle = btrfs.open_directory(above)
        try:
            _chown(Entry(b"", os.fsencode(name), handle, facts), owner)
        finally:
            os.close(handle)
        return
    handle = btrfs.open_directory(top)
    try:
        for entry in walk(handle):
            _chown(entry, owner)
        facts = os.fstat(handle)
        os.fchown(handle, owner(facts.st_uid), owner(facts.st_gid))
        os.fchmod(handle, stat.S_IMODE(facts.st_mode))
    finally:
        os.close(handle)


def _chown(entry: Entry, owner: home_manifest.Owner) -> None:
    uid, gid = owner(entry.facts.st_uid), owner(entry.facts.st_gid)
    if (uid, gid) == (entry.facts.st_uid, entry.facts.st_gid):
        return
    os.chown(entry.name, uid, gid, dir_fd=entry.at, follow_symlinks=False)
    if not stat.S_ISLNK(entry.facts.st_mode):  # chown takes setuid and setgid away
        os.chmod(entry.name, stat.S_IMODE(entry.facts.st_mode), dir_fd=entry.at)


def _part(found: Iterator[home_manifest.Line], inner: str) -> Iterator[home_manifest.Line]:
    """The lines of a part of a home, as if it were a home; hard links to what lies outside are files there."""
    first: dict[str, str] = {}
    contents: dict[str, home_manifest.Line] = {}
    for line in found:
        if not inner:
            yield line
            continue
        if line.kind == "f":
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


def _verify(request: Request, backup: Backup, part: str, inner: str) -> home_manifest.Total:
    back = translated(request, backup.homes[request.user].uid, back=True)

    def there() -> Iterator[home_manifest.Line]:
        if os.path.isdir(part) and not os.path.islink(part):
            return home_manifest.lines(part, owner=back)
        return iter([home_manifest.single(part, owner=back)])

    expected = home_manifest.total(_part(home_manifest.read(backup.manifest(request.user)), inner))
    found = home_manifest.total(there())
    if expected.checksum != found.checksum:
        lines = home_manifest.compare(_part(home_manifest.read(backup.manifest(request.user)), inner), there())
        raise NodeError(f"what was restored is not what was backed up: {', '.join(lines) or 'differs'}")
    return found


def _archive(request: Request, plan: Plan, backup: Backup) -> dict[str, object]:
    """Pack a home for somebody who has no account (any more): a tar file that root alone can read."""
    place, nested = _source(backup, request.user, inner_path(request.path))
    if nested:
        raise NodeError("the home holds subvolumes of its own; restore it to a directory (--to)")
    os.makedirs(os.path.dirname(plan.target), mode=0o700, exist_ok=True)
    packing.pack(place, plan.target)
    size = os.stat(plan.target).st_size
    home = backup.homes[request.user]
    return {"target": plan.target, "aside": None, "backup": backup.name, "files": home.files, "bytes": size,
            "entries": home.entries, "checksum": home.checksum}  # fmt: skip

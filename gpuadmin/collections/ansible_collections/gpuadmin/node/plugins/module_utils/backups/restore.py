"""Restoring from a backup: beside what is there, never over it, and compared with the manifest before it gets its name.

A copy is made where root alone can enter, by ``copying``, with the owners that it is to have where the person's uid has
changed, and it is compared with the manifest.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from .. import btrfs, mounts
from ..budget import unlimited
from ..descend import Entry
from ..errors import NodeError, in_words
from ..files import flocked, make_directory, sync_filesystem
from ..homes import packing
from ..purge import purge
from ..renaming import rename_new
from . import backup_set, home_manifest, home_reader
from .backup_set import Backup
from .copying import Copier
from .restore_plan import RESTORING, Plan, Request, compute, inner_path, translated
from .restored import verify

COPY = "copy"


def execute(request: Request, mountinfo: str | None = None) -> dict[str, object]:
    """Restore; return where it is and what was restored. Whatever stops it, nothing that was there is touched."""
    table = mounts.read_mountinfo() if mountinfo is None else mountinfo
    try:
        with flocked(backup_set.LOCK):
            plan, backup = compute(request, table)
            if request.mode == "archive":
                return _archive(request, plan, backup)
            with _workplace(request, plan) as place:
                total = _copy(request, backup, plan, place)
                _into_place(request, plan, place)
            return {"target": plan.target, "aside": plan.aside, "backup": backup.name, **total.as_dict()}
    except OSError as error:
        raise NodeError(f"nothing was restored: {in_words(error)}") from error


@contextmanager
def _workplace(request: Request, plan: Plan) -> Iterator[int]:
    """Where the copy is made, open: a new directory that root alone can enter, in the subvolume that it is for."""
    if request.mode == "directory":
        at, name = _open_above(request, plan), os.fsencode(f".{os.path.basename(plan.target)}.gpuadmin-part")
    elif (volume := _open_volume(request, plan)) is not None:
        at, name = volume, os.fsencode(RESTORING)
    else:
        common = os.path.join(request.root, RESTORING)
        make_directory(common, 0o700, os.geteuid(), os.getegid())
        backup_set.check_directory(common)
        at, name = btrfs.open_directory(common), os.fsencode(request.user)
    try:
        _discard(at, name)
        os.mkdir(name, 0o700, dir_fd=at)
        place = btrfs.open_directory(name, at)
        try:
            _refuse_theirs(os.fstat(place), name)
            yield place
        finally:
            _discard(at, name, os.fstat(place))
            os.close(place)
    finally:
        os.close(at)


def _discard(at: int, name: bytes, ours: os.stat_result | None = None) -> None:
    """Delete the workplace, or what is left of an earlier one; with ``ours`` only if it is that one."""
    try:
        facts = os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return
    if ours is None:
        _refuse_theirs(facts, name)
    elif not os.path.samestat(facts, ours):
        return
    purge(at, name, lambda entry: None)


def _refuse_theirs(facts: os.stat_result, name: bytes) -> None:
    """In a home that is a subvolume, its owner can give names beside the workplace: theirs is no place for root."""
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
        raise NodeError(f"{os.fsdecode(name)!r} is in the way, and is not root's: move it away first")


def _open_volume(request: Request, plan: Plan) -> int | None:
    """The top of the subvolume that holds the place; None where that is the one of the homes' root.

    No rename leads from one subvolume into another, so the copy is made in the very one that it is for.
    """
    here = btrfs.open_directory(request.root)
    found: int | None = None
    try:
        for part in os.path.relpath(os.path.dirname(plan.place), request.root).split("/"):
            outer, here = here, btrfs.open_directory(part, here)
            changed = os.fstat(here).st_dev != os.fstat(outer).st_dev
            os.close(outer)
            if changed:
                if found is not None:
                    os.close(found)
                found = os.dup(here)
        if found is not None and os.fstat(found).st_ino != btrfs.SUBVOLUME_INODE:
            raise NodeError(
                f"{os.path.dirname(plan.place)} is on a file system of its own; nothing was restored: restore beside "
                "(without --in-place), and copy it from there"
            )
    except BaseException:
        if found is not None:
            os.close(found)
        raise
    finally:
        os.close(here)
    return found


def _open_above(request: Request, plan: Plan) -> int:
    """The directory that the copy goes into, reached from the homes' root through no link: its owner may be at work."""
    above = os.path.dirname(plan.place)
    if request.mode == "directory":
        return btrfs.open_directory(above)
    root = btrfs.open_directory(request.root)
    try:
        return btrfs.open_deep(os.path.relpath(above, request.root), root)
    finally:
        os.close(root)


def _into_place(request: Request, plan: Plan, place: int) -> None:
    """Give the copy its name, in one step."""
    sync_filesystem(f"/proc/{os.getpid()}/fd/{place}")
    above = _open_above(request, plan)
    try:
        _named(plan, place, above)
    finally:
        os.close(above)


def _named(plan: Plan, place: int, above: int) -> None:
    name = os.path.basename(plan.place)
    if os.fstat(above).st_dev != os.fstat(place).st_dev:
        raise NodeError(f"{os.path.dirname(plan.place)} was exchanged while this ran; nothing was restored")
    if plan.aside is not None:
        rename_new(name, above, os.path.basename(plan.aside), above)
    try:
        rename_new(COPY, place, name, above)
    except NodeError as error:
        raise NodeError(f"{error} ({plan.target})" + _moved(plan)) from error
    os.fsync(above)


def _moved(plan: Plan) -> str:
    return "" if plan.aside is None else f"; what was there is {plan.aside}"


def _source(backup: Backup, user: str, inner: str) -> tuple[str, str, dict[str, str]]:
    """Where a part of a home is in the set: a snapshot and a path in it; and the subvolumes inside of that part."""
    top, nested = backup_set.source(backup, user)
    rest = inner
    for prefix in sorted(nested, key=len, reverse=True):
        if inner == prefix or inner.startswith(prefix + "/"):
            top, rest = nested[prefix], inner[len(prefix) :].lstrip("/")
            break
    below = {os.path.relpath(path, inner or "."): where for path, where in nested.items()
             if path != inner and (not inner or path.startswith(inner + "/"))}  # fmt: skip
    return top, rest, below


def _open_source(top: str, rest: str, inner: str) -> Entry:
    """The entry that is restored, in its open directory. A link on the way would lead out of the backup."""
    base = btrfs.open_directory(os.path.dirname(top) if not rest else top)
    try:
        above, name = os.path.split(rest) if rest else ("", os.path.basename(top))
        handle = btrfs.open_deep(above, base)
        try:
            facts = os.stat(name, dir_fd=handle, follow_symlinks=False)
        except BaseException:
            os.close(handle)
            raise
        return Entry(os.fsencode(name), os.fsencode(name), handle, facts)
    except FileNotFoundError:
        raise NodeError(f"{inner} is not in the backup") from None
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise NodeError(f"{inner} is not in the backup, or leads through a symbolic link") from None
        raise
    finally:
        os.close(base)


def _copy(request: Request, backup: Backup, plan: Plan, place: int) -> home_manifest.Total:
    """Make the copy in the workplace, as COPY, and compare it."""
    inner = inner_path(request.path)
    home = backup.homes[request.user]
    top, rest, nested = _source(backup, request.user, inner)
    os.mkdir("links", 0o700, dir_fd=place)
    at, name = place, os.fsencode(COPY)
    if plan.folder is not None:
        os.mkdir(COPY, 0o700, dir_fd=place)
        at, name = btrfs.open_directory(COPY, place), os.fsencode(os.path.basename(plan.target))
    try:
        owner = translated(request, home.uid)
        _copy_to(_open_source(top, rest, inner), nested, place, at, name, owner)
        found = verify(request, backup, at, name, inner)
        if plan.folder is not None:
            facts = os.stat(backup_set.source(backup, request.user)[0])
            os.fchown(at, owner(facts.st_uid), owner(facts.st_gid))
        return found
    finally:
        if at != place:
            os.close(at)


def _copy_to(source: Entry, nested: dict[str, str], place: int, at: int, name: bytes, owner: home_reader.Owner) -> None:
    links = btrfs.open_directory("links", place)
    try:
        copier = Copier(links, unlimited(), owner)
        if not source.is_directory:
            copier.entry(source, at, name)
            return
        handle = btrfs.open_directory(source.name, source.at)
        try:
            copier.tree(handle, nested, at, name)
        finally:
            os.close(handle)
    finally:
        os.close(links)
        os.close(source.at)


def _archive(request: Request, plan: Plan, backup: Backup) -> dict[str, object]:
    """Pack a home for somebody who has no account (any more): a tar file that root alone can read."""
    top, rest, nested = _source(backup, request.user, inner_path(request.path))
    if nested:
        raise NodeError("the home holds subvolumes of its own; restore it to a directory (--to)")
    os.close(_open_source(top, rest, inner_path(request.path)).at)
    place = os.path.join(top, rest) if rest else top
    os.makedirs(os.path.dirname(plan.target), mode=0o700, exist_ok=True)
    packing.pack(place, plan.target)
    size = os.stat(plan.target).st_size
    home = backup.homes[request.user]
    return {"target": plan.target, "aside": None, "backup": backup.name, "files": home.files, "bytes": size,
            "entries": home.entries, "checksum": home.checksum}  # fmt: skip

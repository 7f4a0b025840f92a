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
from dataclasses import replace

from gpuadmin.common.records.backups import RestoreOrder

from .. import btrfs, mounts
from ..budget import unlimited
from ..errors import NodeError, in_words
from ..files import flocked, make_directory, sync_filesystem
from ..homes import attic
from ..paths import RUN
from ..purge import purge
from ..renaming import rename_new
from ..safe_walk import Entry
from . import backup_set, home_manifest, home_reader, transfer
from .backup_set import Backup
from .copying import Copier
from .restore_plan import RESTORING, Plan, compute, inner_path, locate, refuse_nonsense, translated
from .restored import verify
from .sending import PART

COPY = "copy"


def execute(order: RestoreOrder) -> dict[str, object]:
    """Restore; return where it is and what was restored. Whatever stops it, nothing that was there is touched."""
    table = mounts.read_mountinfo()
    try:
        refuse_nonsense(order)
        with flocked(f"{RUN}/restore-{order.user}.lock"):  # guard: restore takes the lock
            plan, backup, away = look(order, table)
            if away:
                with _arrival(order, backup) as arriving:
                    return _restored(order, plan, arriving, away=True)
            with backup_set.reading(order.directory, backup.name):
                return _restored(order, plan, backup, away=False)
    except OSError as error:
        raise NodeError(f"nothing was restored: {in_words(error)}") from error


def look(order: RestoreOrder, mountinfo: str) -> tuple[Plan, Backup, bool]:
    """What is restored, from which backup, and whether from the host of the second copies. Raises what is refused.

    Nothing is begun. Whether a set of that host has the part that is asked for shows only when it is fetched.
    """
    refuse_nonsense(order)
    backup, away = locate(order)
    plan = compute(order, mountinfo, backup)
    if not away:
        inner = inner_path(order.path)
        top, rest, _nested = backup_set.find_part_in_set(backup, order.user, inner)
        os.close(_open_source(top, rest, inner).at)
    if order.mode in ("beside", "in-place") and (volume := _open_volume(order, plan)) is not None:
        os.close(volume)
    return plan, backup, away


def _restored(order: RestoreOrder, plan: Plan, backup: Backup, *, away: bool) -> dict[str, object]:
    with _workplace(order, plan) as place:
        total = _copy(order, backup, plan, place, away=away)
        _into_place(order, plan, place)
    return {"target": plan.target, "aside": plan.aside, "backup": backup.name, **vars(total)}


@contextmanager
def _arrival(order: RestoreOrder, backup: Backup) -> Iterator[Backup]:
    """A set of the other host, with a place beside the backups for the manifest that comes with a home of it."""
    os.makedirs(os.path.dirname(order.directory), exist_ok=True)
    make_directory(order.directory, 0o700, os.geteuid(), os.getegid())
    above, name = btrfs.open_directory(order.directory), f".restoring-{order.user}"
    try:
        purge(above, os.fsencode(name), lambda entry: None)
        path = os.path.join(order.directory, name)
        for one in (path, f"{path}/manifest"):
            os.mkdir(one, 0o700)
        yield replace(backup, path=path)
    finally:
        purge(above, os.fsencode(name), lambda entry: None)
        os.close(above)


@contextmanager
def _workplace(order: RestoreOrder, plan: Plan) -> Iterator[int]:
    """Where the copy is made, open: a new directory that root alone can enter, in the subvolume that it is for."""
    if order.mode in ("directory", "attic"):
        at, name = _open_above(order, plan), os.fsencode(f".{os.path.basename(plan.target)}.gpuadmin-part")
    # guard: a copy is made in the subvolume that it is for -> (volume := None) is not None
    elif (volume := _open_volume(order, plan)) is not None:
        at, name = volume, os.fsencode(RESTORING)
    else:
        common = os.path.join(order.root, RESTORING)
        make_directory(common, 0o700, os.geteuid(), os.getegid())
        backup_set.check_directory(common)  # guard: a restore works in a directory that root alone can enter
        at, name = btrfs.open_directory(common), os.fsencode(order.user)
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
    elif not os.path.samestat(facts, ours):  # guard: a restore deletes no directory but its own
        return
    purge(at, name, lambda entry: None)


def _refuse_theirs(facts: os.stat_result, name: bytes) -> None:
    """In a home that is a subvolume, its owner can create names beside the workplace, so root must not use theirs."""
    # guard: a restore works in no directory of a person's
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
        raise NodeError(f"{os.fsdecode(name)!r} is in the way, and is not root's: move it away first")


def _open_volume(order: RestoreOrder, plan: Plan) -> int | None:
    """The top of the subvolume that holds the place; None if that is the one of the homes' root.

    No rename leads from one subvolume into another, so the copy is made in the very one that it is for.
    """
    here = btrfs.open_directory(order.root)
    found: int | None = None
    try:
        for part in os.path.relpath(os.path.dirname(plan.place), order.root).split("/"):
            outer, here = here, btrfs.open_directory(part, here)
            changed = os.fstat(here).st_dev != os.fstat(outer).st_dev
            os.close(outer)
            if changed:
                if found is not None:
                    os.close(found)
                found = os.dup(here)
        # guard: a file system of its own is refused before it is copied
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


def _open_above(order: RestoreOrder, plan: Plan) -> int:
    """The directory that the copy goes into, reached from the homes' root through no link: its owner may be at work."""
    above = os.path.dirname(plan.place)
    if order.mode == "directory":
        return btrfs.open_directory(above)
    if order.mode == "attic":
        return attic.open_attic(order.root)
    root = btrfs.open_directory(order.root)
    try:
        return btrfs.open_deep(os.path.relpath(above, order.root), root)
    finally:
        os.close(root)


def _into_place(order: RestoreOrder, plan: Plan, place: int) -> None:
    """Give the copy its name, in one step."""
    sync_filesystem(f"/proc/{os.getpid()}/fd/{place}")
    above = _open_above(order, plan)
    try:
        _named(plan, place, above)
    finally:
        os.close(above)


def _named(plan: Plan, place: int, above: int) -> None:
    name = os.path.basename(plan.place)
    if os.fstat(above).st_dev != os.fstat(place).st_dev:  # guard: nothing is moved aside where nothing can be moved in
        raise NodeError(f"{os.path.dirname(plan.place)} was exchanged while this ran; nothing was restored")
    if plan.aside is not None:
        rename_new(name, above, os.path.basename(plan.aside), above)
    try:
        rename_new(COPY, place, name, above)
        os.fsync(above)
    except (NodeError, OSError) as error:
        raise NodeError(f"{in_words(error)} ({plan.target})" + _moved(plan)) from error


def _moved(plan: Plan) -> str:
    return "" if plan.aside is None else f"; what was there is {plan.aside}"


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


def _copy(order: RestoreOrder, backup: Backup, plan: Plan, place: int, *, away: bool) -> home_manifest.Total:
    """Make the copy in the workplace, as COPY, and compare it."""
    inner = inner_path(order.path)
    os.mkdir("links", 0o700, dir_fd=place)
    at, name = place, os.fsencode(COPY)
    if plan.folder is not None:
        os.mkdir(COPY, 0o700, dir_fd=place)
        at, name = btrfs.open_directory(COPY, place), os.fsencode(os.path.basename(plan.target))
    try:
        owner = translated(order, backup.homes[order.user].uid)
        if away:
            _fetch(order, backup, inner, place, at, name, owner)
        else:
            top, rest, nested = backup_set.find_part_in_set(backup, order.user, inner)
            _copy_to(_open_source(top, rest, inner), nested, place, at, name, owner)
        found = verify(order, backup, at, name, inner)
        if plan.folder is not None:
            home = next(home_manifest.read(backup.manifest(order.user)))
            os.fchown(at, owner(home.uid), owner(home.gid))
        return found
    finally:
        if at != place:
            os.close(at)


def _fetch(
    order: RestoreOrder, backup: Backup, inner: str, place: int, at: int, name: bytes, owner: home_reader.Owner
) -> None:
    """Fetch it from the host of the second copies."""
    remote = transfer.connect(order.remote)
    assert remote is not None
    os.mkdir("arrived", 0o700, dir_fd=place)
    top, links = btrfs.open_directory("arrived", place), btrfs.open_directory("links", place)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    manifest = os.open(backup.manifest(order.user), flags, 0o600)
    try:
        transfer.fetch(remote, backup.name, order.user, inner, manifest, top, links, owner)
        recorded = home_manifest.total(home_manifest.read(backup.manifest(order.user)))
        # guard: what the other host sends back is compared
        if recorded.checksum != backup.homes[order.user].checksum:
            raise NodeError(f"{remote.name} sent another manifest than its set {backup.name} names")
        if not _is_directory(backup, order.user, inner):
            os.rename(PART, name, src_dir_fd=top, dst_dir_fd=at)
        else:
            os.rename("arrived", name, src_dir_fd=place, dst_dir_fd=at)
    finally:
        for handle in (manifest, top, links):
            os.close(handle)


def _is_directory(backup: Backup, user: str, inner: str) -> bool:
    lines = home_manifest.read(backup.manifest(user))
    return next((line.kind == "d" for line in lines if line.path == (inner or ".")), True)


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

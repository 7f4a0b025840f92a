"""Wiping homes: each is moved out of sight by one rename, so it is empty for its owner at once, whatever is in it.

What was moved is deleted afterwards, each entry only if the verified backup has it. All is by names and uids that were
decided; a home is left alone if it is not the very directory that the backup holds.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field

from gpuadmin.common.records.people import ItemReport, Purged
from gpuadmin.common.records.wipes import WipeHomes as Request
from gpuadmin.common.text import counted

from .. import btrfs, mounts
from ..backups import backup_set
from ..backups.backup_set import Backup
from ..errors import NodeError, in_words
from ..fields import FIRST_HUMAN_UID, home_owner, quoted, whole_number
from ..files import flocked, sync_filesystem
from ..homes import directories
from ..homes.directories import LOCK
from ..homes.trash import TRASH
from ..purge import Twin, keep, purge
from ..report import Reports


@dataclass
class Plan(Reports[ItemReport]):
    """`status` of a home: wiped, absent (nothing is left to do), conflict (kept, for the reason in `problem`)."""

    KEY, PREFIX = "homes", "home "

    move: list[str] = field(default_factory=list)


def _why_not(name: str, uid: int, backup: Backup) -> str | None:
    """Why the backup does not allow that this home goes."""
    saved = backup.homes.get(name)
    if saved is None:
        return f"is not in the backup {backup.name}" + (
            f" ({backup.problems[name]})" if name in backup.problems else ""
        )
    if saved.verified is None:
        return f"was not verified in the backup {backup.name}"
    lacking = [f"{host} ({homes[name]})" for host, homes in sorted(backup.uncopied.items()) if name in homes]
    if lacking:  # guard: a home without a second copy stays
        return f"has no second copy on {', '.join(lacking)}"
    if saved.uid != uid:
        return f"belonged to uid {saved.uid} when it was backed up, not {uid}"
    return None


def _changed_hands(request: Request, name: str, uid: int, backup: Backup, table: list[mounts.Mount]) -> str | None:
    """Why what is there is not the directory that was backed up."""
    path = os.path.join(request.root, name)
    facts = os.lstat(path)
    if stat.S_ISLNK(facts.st_mode):
        return "is a symbolic link; it is not followed"
    if not stat.S_ISDIR(facts.st_mode):
        return "is not a directory"
    if facts.st_uid != uid:  # guard: a home that was given away is not wiped
        return f"belongs to uid {facts.st_uid}, not {uid}"
    inside = mounts.below(path, table)
    if inside:
        return f"{inside[0].point} is mounted inside"
    saved = backup.homes[name]
    volume = btrfs.subvolume(path)
    own = volume.uuid if volume is not None and facts.st_ino == btrfs.SUBVOLUME_INODE else ""
    if (
        facts.st_ino != saved.inode  # guard: another directory than the one that was backed up
        or own != saved.volume  # guard: another subvolume than the one that was backed up
    ):
        return "is another directory than the one that was backed up"
    return None


def compute(request: Request, backup: Backup, mountinfo: str) -> Plan:
    """Decide for each home, by what is there now."""
    plan = Plan()
    table = mounts.parse_mountinfo(mountinfo)
    seen: dict[int, str] = {}
    for raw in request.users:
        uid = whole_number(raw.get("uid"))
        owner = home_owner(raw.get("name"))
        name = str(raw.get("name")) if owner else quoted(raw.get("name"))
        home = ItemReport("wiped")
        if name in plan.entries:
            home = plan.entries[name]
            home.status, home.problem = "conflict", "is named twice"
            if name in plan.move:
                plan.move.remove(name)
            continue
        plan.entries[name] = home
        if owner is None or uid is None or uid < FIRST_HUMAN_UID:
            home.status, home.problem = (
                "conflict",
                f"{quoted(raw.get('name'))}, uid {quoted(raw.get('uid'))} is refused",
            )
            continue
        if seen.setdefault(uid, owner) != owner:  # guard: what is beside a home is its owner's by name
            home.status, home.problem = "conflict", f"uid {uid} is {seen[uid]}'s, too"
            continue
        if not os.path.lexists(os.path.join(request.root, name)):
            waiting = os.path.lexists(trash(request.root, request.backup, name))
            home.status = "wiped" if waiting else "absent"
            continue
        try:
            problem = _why_not(name, uid, backup) or _changed_hands(request, name, uid, backup, table)
        except OSError as error:  # the others' homes go all the same
            problem = f"cannot be looked at: {error.strerror}"
        if problem:
            home.status, home.problem = "conflict", problem
            continue
        saved = backup.homes[name]
        home.files, home.bytes = saved.files, saved.bytes
        size = f"{counted(saved.files, 'file')}, {counted(saved.bytes, 'byte')}"
        home.operations.append(f"wipe (uid {uid}, {size}; in backup {backup.name})")
        plan.move.append(name)
    return plan


def trash(root: str, backup: str, name: str) -> str:
    return os.path.join(root, TRASH, backup, name)


def _checked(request: Request, mountinfo: str) -> Backup:
    if not directories.check_root(request.root, request.mountpoint, mountinfo):
        raise NodeError(f"there is no {request.root}")
    backup_set.check_directory(request.directory)  # guard: a wipe believes backups of root's alone
    backup = backup_set.load(request.directory, request.backup)
    if backup is None:
        raise NodeError(f"there is no complete backup {request.backup} in {request.directory}: nothing is wiped")
    if backup.root != request.root:
        raise NodeError(f"the backup {request.backup} is of {backup.root}, not of {request.root}: nothing is wiped")
    return backup


def converge(request: Request, *, check: bool = False, mountinfo: str | None = None, lock: str = LOCK) -> Plan:
    """Move the homes out of sight (unless ``check``) and return the plan: the same in both cases."""
    try:
        table = mounts.read_mountinfo() if mountinfo is None else mountinfo
        backup = _checked(request, table)
        if check:
            return compute(request, backup, table)
        with flocked(lock):  # guard: homes go under the lock
            plan = compute(request, backup, table)
            if plan.move:
                _move(request, plan, backup)
            return plan
    except OSError as error:
        raise NodeError(in_words(error)) from error


def _private(path: str) -> None:
    """A directory that root alone can enter: whoever has something open in it may go on, nobody new comes in."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        facts = os.lstat(path)
        # guard: where homes are moved to is root's alone
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
            raise NodeError(f"{path} is not root's directory") from None


def _move(request: Request, plan: Plan, backup: Backup) -> None:
    source = btrfs.open_directory(request.root)
    try:
        for name in list(plan.move):
            try:
                problem = _move_or_delete(request, source, name, backup)
            except (OSError, NodeError) as error:  # guard: one home that cannot be moved
                problem = f"could not be wiped: {in_words(error)}"
            if problem:
                plan.entries[name].status, plan.entries[name].problem = "conflict", problem
                plan.entries[name].operations.clear()
                plan.move.remove(name)
    finally:
        os.close(source)
    sync_filesystem(request.root)  # guard: homes that are reported to have gone are out of sight on the disk


def _move_or_delete(request: Request, source: int, name: str, backup: Backup) -> str | None:
    try:
        _move_home_aside(request, source, name)
        return None
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            return "the rest of an earlier home of that name is still there"
        if error.errno not in (errno.EDQUOT, errno.ENOSPC):
            raise
        # where nothing new fits, a rename fails but unlinking does not
        return _delete_in_place(source, name, backup)


def _delete_in_place(source: int, name: str, backup: Backup) -> str | None:
    with Twin(*backup_set.source(backup, name), backup.begun) as twin:
        done = purge(source, os.fsencode(name), twin.judge, itself=lambda entry: None)
    return f"was deleted but for {', '.join(done.words)}" if done.kept else None


def _move_home_aside(request: Request, source: int, name: str) -> None:
    btrfs.make_movable(name, source)
    place = os.path.dirname(trash(request.root, request.backup, name))
    _private(os.path.dirname(place))
    _private(place)
    target = btrfs.open_directory(place)
    try:  # on disk with all the others, at the end; what is there already, of an earlier home, is never replaced
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
    finally:
        os.close(target)


def _empty_hidden_home(backup: Backup, handle: int, name: str) -> Purged:
    """Delete one home out of sight. Whoever still writes in it keeps what is left of it, and nothing of others."""
    try:
        with Twin(*backup_set.source(backup, name), backup.begun) as twin:
            return purge(handle, os.fsencode(name), twin.judge, itself=lambda entry: None)
    except (OSError, NodeError) as error:  # guard: one home out of sight that cannot be deleted
        done = Purged(0, 0, [])
        keep(done, os.fsencode(name), f"stays, wholly or in part: {in_words(error)}")
        return done


def empty_trash(request: Request) -> dict[str, Purged]:
    """Delete what was moved out of sight under this backup, as far as the backup has it; return what was done."""
    backup = _checked(request, mounts.read_mountinfo())
    done: dict[str, Purged] = {}
    place = os.path.join(request.root, TRASH, request.backup)
    if not os.path.isdir(place):
        return done
    handle = btrfs.open_directory(place)
    try:
        for name in sorted(os.listdir(handle)):
            if name not in backup.homes:
                continue
            # guard: what is not verified any more is not deleted
            if backup.homes[name].verified is None:  # somebody has verified it again since
                done[name] = Purged(0, 0, [])
                keep(done[name], os.fsencode(name), f"stays: it is not verified in the backup {backup.name} any more")
                continue
            done[name] = _empty_hidden_home(backup, handle, name)
    finally:
        os.close(handle)
    backup_set.leave_trash(place)
    # guard: homes that are reported to be deleted are on the disk
    sync_filesystem(request.root)  # nobody looks for it again
    return done

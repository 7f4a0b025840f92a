"""Where a restore goes, under whose ids, and what keeps it from going there. Nothing is written here."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass

from gpuadmin.common.records.backups import RestoreOrder
from gpuadmin.common.text import counted, size_words

from ..errors import NodeError
from ..fields import home_owner, quoted
from ..homes import directories
from ..homes.attic import ATTIC
from . import backup_set, home_reader, transfer
from .backup_set import Backup

RESTORING = ".gpuadmin-restoring"
MOST_PARTS = 99  # of one home from one backup; fields.BESIDE knows as many
MODES = ("beside", "in-place", "directory", "attic")


@dataclass(frozen=True)
class Plan:
    """``target``: where it goes. ``aside``: where what is there now goes, in place.

    ``folder``: a directory that is made for it, which only the person can enter; the target is then in that.
    """

    operations: tuple[str, ...]
    target: str
    aside: str | None = None
    folder: str | None = None

    @property
    def place(self) -> str:
        """What gets its name when all is well."""
        return self.folder or self.target


def locate(order: RestoreOrder) -> tuple[Backup, bool]:
    """The backup to restore from, and whether it is on the host of the second copies.

    That host is asked where nothing here will do: the backup that was named is not here, or no home of that person
    was verified in any that is. Where it does not answer, what is here has to do.
    """
    user, directory, remote = order.user, order.directory, transfer.connect(order.remote)
    backup_set.check_directory(directory)  # guard: a restore believes backups of root's alone
    if order.backup:
        here = backup_set.load(directory, order.backup)
    else:
        here = backup_set.newest(reversed(backup_set.complete(directory)), user)
    if here is not None and user in here.homes and (order.backup or here.homes[user].verified):
        return here, False
    wanted = f"complete backup {order.backup} with" if order.backup else "backup with"
    lacking = f"no {wanted} a home of {user} in {directory}"
    if remote is not None:
        there = None
        try:
            there = transfer.newest(user, directory, remote, order.backup)
        except NodeError as error:
            lacking += f"; and {error}"
        else:
            lacking += f", nor on {remote.name}"
        if there is not None and user in there.homes:
            return there, True
    if here is not None and user in here.homes:
        return here, False
    raise NodeError(lacking)


def inner_path(path: str) -> str:
    """A path below a home, without a way out of it."""
    clean = os.path.normpath(path) if path else ""
    if path.startswith("/") or clean == ".." or clean.startswith("../") or "\0" in path:
        raise NodeError(f"{quoted(path)} is not a path inside of the home")
    return "" if clean == "." else clean


def refuse_nonsense(order: RestoreOrder) -> None:
    """Raise NodeError for a name or a mode that nobody has."""
    if home_owner(order.user) is None or order.mode not in MODES:
        raise NodeError(f"{quoted(order.user)}, {quoted(order.mode)}: refused")
    if order.backup and not backup_set.NAME.match(order.backup):
        raise NodeError(f"{quoted(order.backup)} is not the name of a backup")


def compute(order: RestoreOrder, mountinfo: str, found: Backup) -> Plan:
    """Decide where what ``found`` has goes; refuse what is in the way."""
    if not directories.check_root(order.root, order.mountpoint, mountinfo):
        raise NodeError(f"there is no {order.root}")
    inner = inner_path(order.path)
    what = f"{order.user}'s {inner or 'home'} from {found.name}"
    home = os.path.join(order.root, order.user)
    stamp = found.name.partition("-")[0]
    target, aside, folder = f"{home}.restored-{stamp}", None, None
    if order.mode == "attic":
        target = os.path.join(order.root, ATTIC, f"{order.user}-{found.homes[order.user].uid}-restored-{stamp}")
    elif order.mode == "directory":
        target = str(order.target)
        if not target.startswith("/") or os.path.normpath(target) != target or target == "/":
            raise NodeError(f"{quoted(target)} is not a plain absolute path")
        _roots_own(os.path.dirname(target))
    elif order.mode == "in-place":
        target = os.path.join(home, inner) if inner else home
        if os.path.realpath(os.path.dirname(target)) != os.path.dirname(target):
            raise NodeError(f"{os.path.dirname(target)} is not there, or leads through a symbolic link: restore beside")
        if os.path.lexists(target):
            aside = f"{target}.before-{stamp}"
    # guard: a part beside the home is in a directory of the person's
    elif inner:  # a part has its own mode, and was private by what lies above it
        folder = target
        target = os.path.join(folder, os.path.basename(inner))
    if inner and aside:
        aside = _free(aside)
    elif inner and folder:
        folder = _free(folder)  # guard: a second part has a name of its own
        target = os.path.join(folder, os.path.basename(inner))
    if os.path.lexists(aside or folder or target):  # guard: a restore's plan sees what is in its way
        raise NodeError(f"{aside or folder or target} is there already; move it away first")
    saved = found.homes[order.user]
    size = f"{counted(saved.files, 'file')}, {size_words(saved.bytes)}"
    operations = [f"restore {what} ({f'a part of a home of {size}' if inner else size}) to {target}"]
    if aside:
        operations.insert(0, f"keep what is there now as {aside}")
    return Plan(tuple(operations), target, aside, folder)


def _free(path: str) -> str:
    """A name for a part that is restored: the plain one, or with a number where earlier parts are."""
    names = (path, *(f"{path}-{number}" for number in range(2, MOST_PARTS + 1)))
    return next((name for name in names if not os.path.lexists(name)), path)


def _roots_own(path: str) -> None:
    """Root must not write where somebody else could put a link in its way."""
    if os.path.realpath(path) != path or not os.path.isdir(path):
        raise NodeError(f"{path} must be a directory that is there, without symbolic links on the way")
    place = path
    while True:
        facts = os.stat(place)
        others = 0o022
        # where others may create, and rename nothing of root's (/tmp), root's own directory stays in its place
        if place != path and facts.st_mode & stat.S_ISVTX:
            others = 0
        # guard: root writes where nobody else can put a link
        if facts.st_uid not in (0, os.geteuid()) or facts.st_mode & others:
            raise NodeError(f"{place} must belong to root, and nobody else may write in it")
        if place == "/":
            return
        place = os.path.dirname(place)  # guard: nobody else can exchange what root writes in -> "/"


def owners(order: RestoreOrder, old: int) -> Mapping[int, int]:
    return {} if order.uid in (None, old) else {old: int(str(order.uid))}


def translated(order: RestoreOrder, old: int) -> home_reader.Owner:
    """The ids to give: the person's own, and subordinate ones by their place.

    There is no way back: a file of the backup may have the new id already.
    """
    single = owners(order, old)
    base, count, lowest = order.subids or (0, 0, 0)
    first = base + (old - lowest) * count
    then = base + (next(iter(owners(order, old).values()), old) - lowest) * count

    def translate(one: int) -> int:
        if one in single:
            return single[one]
        return one - first + then if first <= one < first + count else one

    return translate

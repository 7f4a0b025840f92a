"""Uids that something on this host carries and no account of gpuadmin's here has: no newcomer gets them.

No tree is walked. Accounts, groups, two levels of directories, backups, quotas and the records of measured disks name
the uids.
"""

from __future__ import annotations

import itertools
import os
import stat
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional

from gpuadmin.common.records.people import CarriedUids

from .. import mounts
from ..accounts.databases import Databases
from ..accounts.desired import DesiredState, Settings
from ..backups import backup_set
from ..btrfs import open_directory
from ..each import Failed
from ..errors import NodeError
from ..fields import quoted
from ..in_turn import in_turn
from ..textdb import number
from ..user_quotas import KINDS, UserQuotas
from .records import Records, load

LEVELS = 2
MOST = 2000  # entries of one directory
MOST_USERS = 1 << 18  # of one file system: a person's containers have tens of thousands
SECONDS, TOTAL = 1.0, 4.0  # for one directory, and for all of a level


@dataclass(frozen=True)
class Places:
    """Where files of people are."""

    #: Directories in which each entry is somebody's.
    directories: Sequence[str] = ()
    #: Directory of backups.
    backups: Optional[str] = None


@dataclass
class Carried:
    """What was found. ``ids``: uid → what carries it, or a subordinate id of its range. ``looked``: where, in words.
    ``not_looked``: where not, and why. ``known``: uids of gpuadmin's own accounts."""

    settings: Settings
    known: Collection[int]
    ids: dict[int, str] = field(default_factory=dict)
    looked: list[str] = field(default_factory=list)
    not_looked: list[str] = field(default_factory=list)

    def add(self, found: int | None, words: str) -> None:
        """Note an id if a newcomer could get it."""
        uid = None if found is None else self._person(found)
        if uid is not None and uid not in self.known:
            self.ids.setdefault(uid, words if uid == found else f"{words} (subordinate id {found})")

    def _person(self, found: int) -> int | None:
        """Return the uid to which an id belongs by the site's ranges; None: no person's."""
        first, last = self.settings.uid_first, self.settings.uid_last
        if found >= self.settings.subid_base:  # guard: a newcomer's containers get no ids that files have
            found = first + (found - self.settings.subid_base) // self.settings.subid_size
        return found if first <= found <= last else None

    def describe(self) -> CarriedUids:
        """Return the report of it."""
        return CarriedUids({str(uid): words for uid, words in self.ids.items()}, self.looked, self.not_looked[:20])


def look(
    places: Places,
    settings: Settings,
    desired: DesiredState,
    files: Mapping[str, str | None],
    records: str,
    mountinfo: str | None = None,
) -> Carried:
    """Look at accounts, at ``places``, and at what was measured. ``files``: the account databases. ``records``: path of
    the records of measured disks."""
    known = {one.user.uid for one in desired.records.values()} | {uid for _name, uid in desired.removed}
    found = Carried(settings, known)
    data = Databases(files)
    for fields in data.passwd.entries():
        found.add(number(fields[2]), f"account {quoted(fields[0])[1:-1]}")
    for gid, names in data.groups_by_gid.items():
        found.add(gid, f"group {quoted(names[0])[1:-1]}")
    table = mounts.parse_mountinfo(mounts.read_mountinfo() if mountinfo is None else mountinfo)
    paths = [path for path in places.directories if _is_local(path, table)]
    _directories(paths, table, found)
    _quotas(paths, table, found)  # guard: no newcomer gets the uid of files that quotas count
    if places.backups is not None:
        _backups(places.backups, found)
    try:
        _measured(load(records), found)
    except NodeError as error:
        found.not_looked.append(str(error))
    return found


def _is_local(path: str, table: list[mounts.Mount]) -> bool:
    """Whether a directory is there, on a disk of this host: what comes by the network is looked at where it is."""
    under = mounts.nearest(path, table)
    return under is not None and not mounts.NETWORK.match(under.fstype) and under.fstype != "autofs" and _is_dir(path)


def _is_dir(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _printable(path: str) -> str:
    """A path, the last part of which a person may have named."""
    return ascii(path)[1:-1][:300]


def _directories(paths: Sequence[str], table: list[mounts.Mount], found: Carried) -> None:
    points = {one.point for one in table}
    level = list(paths)
    for _ in range(LEVELS):
        below = []
        for path, answer in in_turn(_entries, level, seconds=SECONDS, total=TOTAL):
            if isinstance(answer, Failed):
                found.not_looked.append(f"{_printable(path)}: {answer.why}")
                continue
            if len(answer) == MOST:
                found.not_looked.append(f"{_printable(path)}: has more than {MOST} entries")
            for name, is_directory, ids in answer:
                for one in ids:
                    found.add(one, f"{path}/{quoted(name)[1:-1]}")
                if (
                    is_directory
                    # guard: what is mounted in somebody's directory is not entered for its owners
                    and os.path.join(path, name) not in points
                ):
                    below.append(os.path.join(path, name))
        level = below
    found.looked += [f"{path} ({LEVELS} levels)" for path in paths]


def _quotas(paths: Sequence[str], table: list[mounts.Mount], found: Carried) -> None:
    """Add the owners that the kernel counts for quotas: those of whole file systems, without a walk."""
    under = {mount.source: mount for path in paths if (mount := mounts.nearest(path, table)) is not None}
    for device, mount in under.items():
        if mount.fstype not in KINDS:
            continue
        try:
            users = list(itertools.islice(UserQuotas(device).users(), MOST_USERS))
        except OSError as error:
            found.not_looked.append(f"quotas of {mount.point}: {error.strerror}")
            continue
        for uid in users:
            found.add(uid, f"something on {mount.point}, by its quotas")
        if users:
            found.looked.append(f"{mount.point} (all of it, by its quotas)")


def _entries(path: str) -> list[tuple[str, bool, tuple[int, int]]]:
    """Name, whether it is a directory, owner and group: of the first MOST entries."""
    handle = open_directory(path)
    try:
        with os.scandir(handle) as entries:
            return [*_facts(itertools.islice(entries, MOST))]
    finally:
        os.close(handle)


def _facts(entries: Iterator[os.DirEntry[str]]) -> Iterator[tuple[str, bool, tuple[int, int]]]:
    for entry in entries:
        try:
            facts = entry.stat(follow_symlinks=False)
        except OSError:  # guard: somebody's own mount, or what has just gone, hides no other's owners
            continue
        yield entry.name, stat.S_ISDIR(facts.st_mode), (facts.st_uid, facts.st_gid)


def _backups(directory: str, found: Carried) -> None:
    count = 0
    for name in backup_set.names(directory):
        try:
            backup = backup_set.load(directory, name)
        except NodeError as error:  # guard: a damaged backup hides no other's owners
            found.not_looked.append(str(error))
            continue
        if backup is not None:
            count += 1
            for person, home in backup.homes.items():
                found.add(home.uid, f"{backup.path}/{quoted(person)[1:-1]}")
    if count:
        found.looked.append(f"{count} of the backups in {directory}")


def _measured(records: Records, found: Carried) -> None:
    days: dict[str, float] = {}
    for (place, name), record in sorted(records.items()):
        for uid in record.unowned or ():
            found.add(uid, f"something below {place}/{quoted(name)[1:-1]}".rstrip("/"))
        if record.unowned is not None:
            days[place] = min(days.get(place, record.when), record.when)
    for place, when in days.items():
        day = time.strftime("%Y-%m-%d", time.gmtime(when))
        found.looked.append(f"{place} (all of it, as measured on {day} or later)")

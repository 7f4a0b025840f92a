"""A backup as a set of files: what it is made of, reading and writing its records, and deleting it.

``DIRECTORY/NAME/homes`` is the snapshot of the subvolume that holds all homes, ``nested/N`` those of subvolumes inside
of homes, ``manifest/USER.gz`` says what is in a home. ``backup.json`` is written last, when all is on disk: without it
there is no set. While it is made, ``unfinished.json`` says which homes are done. Nobody reads that but the next run,
which goes on with it, or ends it with what is done.

In a second copy ``homes`` is a directory, and each home in it a subvolume of its own: arriving.py makes those.

A reader holds a shared lock on the set's directory, a deleter an exclusive one: a set in use stays.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gpuadmin.common.records import people as records
from gpuadmin.common.records.people import BACKUP_FORMAT, Home

from .. import btrfs
from ..documents import to_plain
from ..errors import NodeError
from ..fields import STAMP, quoted, whole_number
from ..files import flocked, read_bytes, sync_directory, unlink_if_present, write_atomic
from ..paths import RUN

FORMAT = BACKUP_FORMAT
UNFINISHED = "unfinished.json"
NAME = re.compile(STAMP + r"-[a-z0-9]([a-z0-9.-]{0,60}[a-z0-9])?\Z")
LOCK = f"{RUN}/backups.lock"  # only whoever makes a set holds it
RECORDS = f"{RUN}/backup-records.lock"  # held for as long as a backup.json is read and written


class InUse(NodeError):
    """Somebody is reading or deleting the set."""


@dataclass(frozen=True)
class Backup(records.Backup):
    """A complete set, and where what it has is."""

    def home(self, name: str) -> str:
        """Where a home is in the snapshot."""
        return os.path.normpath(os.path.join(self.path, "homes", self.inside, name))

    def nested(self, name: str) -> dict[str, str]:
        return {inner: os.path.join(self.path, where) for inner, where in self.homes[name].nested.items()}

    def manifest(self, name: str) -> str:
        return os.path.join(self.path, "manifest", f"{name}.gz")


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def check_directory(path: str) -> None:
    """The directory of backups is root's own: whoever could write there could decide what is wiped."""
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        return
    if (
        not stat.S_ISDIR(facts.st_mode)
        or facts.st_uid != os.geteuid()
        or facts.st_mode & 0o077  # guard: backups are where root alone can enter
    ):
        raise NodeError(f"{path} must be a directory that root alone can enter (mode 0700)")


def load(directory: str, name: str) -> Backup | None:
    """A complete set; None if there is none with that name. Raises NodeError if it cannot be read."""
    if not NAME.match(name):  # guard: a set is loaded by a name that is one
        raise NodeError(f"{quoted(name)} is not the name of a backup")
    path = os.path.join(directory, name)
    data = read_bytes(os.path.join(path, "backup.json")) if os.path.isdir(path) else None
    return None if data is None else parse(directory, name, data)


def parse(directory: str, name: str, data: bytes | str) -> Backup:
    """What a backup.json says of the set ``name``, whose place is in ``directory``. Raises NodeError."""
    path = os.path.join(directory, name)
    try:
        raw = json.loads(data)
        if raw["format"] not in range(1, FORMAT + 1):  # guard: a set of another format is not read
            raise NodeError(f"{path} has format {quoted(raw['format'])}; this code knows {FORMAT}")
        found = {str(key): Home(**{"verified": None, **value}) for key, value in raw["homes"].items()}
        uncopied = {str(host): dict(homes) for host, homes in raw.get("uncopied", {}).items()}
        return Backup(name, raw["created"], found, raw["problems"], raw["copies"], path, raw["root"], raw["inside"],
                      uncopied, raw["format"], whole_number(raw.get("begun")) or 0)  # fmt: skip
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise NodeError(f"{path}/backup.json cannot be read: {error}") from error


def document(backup: Backup) -> dict[str, object]:
    """What backup.json says: all but where it is."""
    return {name: value for name, value in to_plain(backup).items() if name not in ("name", "path")}


def store(backup: Backup, file: str = "backup.json") -> None:
    """Write backup.json, durably."""
    path = os.path.join(backup.path, file)
    write_atomic(path, (json.dumps(document(backup), indent=1, sort_keys=True) + "\n").encode(), mode=0o600)


@contextmanager
def reading(directory: str, name: str, *, alone: bool = False) -> Iterator[int]:
    """Hold the set ``name``: nobody deletes it meanwhile; ``alone``: nobody reads it. Gives its open directory.

    Raises InUse, or FileNotFoundError if there is no such directory (any more).
    """
    handle = btrfs.open_directory(os.path.join(directory, name))
    try:
        try:
            fcntl.flock(
                handle,
                (
                    fcntl.LOCK_EX
                    if alone  # guard: a set that is read is not deleted
                    else fcntl.LOCK_SH
                )
                | fcntl.LOCK_NB,
            )
        except BlockingIOError:
            raise InUse(f"{name} is in use: it is being read" if alone else f"{name} is being deleted") from None
        os.stat(os.path.join(directory, name))
        yield handle
    finally:
        os.close(handle)


def unfinished(directory: str, name: str) -> Backup | None:
    """A set that was being made: its snapshots are there, and of those homes that are done the manifests."""
    path = os.path.join(directory, name)
    data = read_bytes(os.path.join(path, UNFINISHED)) if os.path.isdir(path) else None
    return None if data is None else parse(directory, name, data)


def done(home: Home) -> bool:
    """Whether the manifest of a home in an unfinished set is written."""
    return bool(home.checksum)


def finish(backup: Backup) -> None:
    """Make a set complete. The manifests are on disk."""
    store(backup)
    unlink_if_present(os.path.join(backup.path, UNFINISHED))
    sync_directory(os.path.dirname(backup.path))


def tidy(directory: str, but: str) -> None:
    """End what interruptions left, all but the set ``but``: complete with the homes that are done, or gone."""
    for name in names(directory):
        try:
            if name != but and load(directory, name) is None:
                _end(directory, name)
        except InUse:
            continue  # somebody is working on it right now


def _end(directory: str, name: str) -> None:
    found = unfinished(directory, name)
    ready = {} if found is None else {one: home for one, home in found.homes.items() if done(home)}
    if found is None or not ready:
        remove(directory, name)
        return
    missing = {one: "was not reached before the run ended" for one in found.homes if one not in ready}
    finish(replace(found, homes=ready, problems={**found.problems, **missing}))


def names(directory: str) -> list[str]:
    """All sets, also incomplete ones, oldest first."""
    try:
        return sorted(name for name in os.listdir(directory) if NAME.match(name))
    except FileNotFoundError:
        return []


def complete(directory: str) -> list[Backup]:
    """All complete sets, oldest first."""
    return [found for name in names(directory) if (found := load(directory, name)) is not None]


def newest(sets: Iterable[Backup], user: str) -> Backup | None:
    """Of sets given newest first: the first that a person's home was verified in, else the first that has it.

    No more of ``sets`` is asked for than it takes.
    """
    having = None
    for one in sets:
        home = one.homes.get(user)
        if home is not None and home.verified:
            return one
        having = one if having is None and home is not None else having
    return having


def leave_trash(place: str) -> None:
    """Remove the directory of what a wipe left, and the one that holds all of those, as far as they are empty."""
    above = os.path.dirname(place)
    for path in (place, above):
        try:
            os.rmdir(path)
        except FileNotFoundError:
            pass  # somebody else has cleared up
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            break


def source(backup: Backup, name: str) -> tuple[str, dict[str, str]]:
    """Where a home is in a set, and the snapshots of the subvolumes inside of it."""
    nested = backup.nested(name)
    own = nested.pop("", None)
    return (backup.home(name) if own is None else own), nested


def find_part_in_set(backup: Backup, name: str, inner: str) -> tuple[str, str, dict[str, str]]:
    """Where a part of a home is in the set: a snapshot and a path in it; and the subvolumes inside of that part."""
    top, nested = source(backup, name)
    rest = inner
    for prefix in sorted(nested, key=len, reverse=True):
        if inner == prefix or inner.startswith(prefix + "/"):
            top, rest = nested[prefix], inner[len(prefix) :].lstrip("/")
            break
    below = {os.path.relpath(path, inner or "."): where for path, where in nested.items()
             if path != inner and (not inner or path.startswith(inner + "/"))}  # fmt: skip
    return top, rest, below


def copied(backup: Backup, host: str, when: str, lacking: Mapping[str, str] | None = None) -> Backup:
    """Record that a host holds a copy since ``when``, and which homes that lacks, and why."""

    def change(fresh: Backup) -> Backup:
        uncopied = {**fresh.uncopied, host: dict(lacking)} if lacking else {
            one: homes for one, homes in fresh.uncopied.items() if one != host
        }  # fmt: skip
        return replace(fresh, copies={**fresh.copies, host: when}, uncopied=uncopied)

    return changed(backup, change, f"copied to {host}")


def changed(backup: Backup, change: Callable[[Backup], Backup], when: str) -> Backup:
    """Change what backup.json says now, and return it: reading a home takes hours, and others record meanwhile.

    One at a time: if two had loaded the same, the first one's record would be lost. Raises NodeError if the set was
    deleted while it was (``when``) copied or read.
    """
    directory = os.path.dirname(backup.path)
    with flocked(RECORDS):  # guard: of two who record in a set neither is lost
        fresh = load(directory, backup.name)
        if fresh is None:  # guard: a set that is deleted is not made one again
            raise NodeError(f"{backup.name} was deleted while it was {when}")
        result = change(
            fresh  # guard: a verification writes into the set as it is by now -> backup
        )
        store(result)
        return result


def remove(directory: str, name: str) -> None:
    """Delete a set: first what makes it one, then its snapshots, then the rest. Can be cut and run again.

    Raises InUse where somebody reads it, and then it is as it was.
    """
    if not NAME.match(name):
        raise NodeError(f"{quoted(name)} is not the name of a backup")
    path = os.path.join(directory, name)
    if (
        not os.path.isdir(path)
        # guard: no set is deleted through a link
        or os.path.islink(path)
    ):
        return
    with reading(directory, name, alone=True):
        _remove(directory, path)


def _remove(directory: str, path: str) -> None:
    # guard: a set that goes is not recorded again
    with flocked(RECORDS):  # nobody who has just read it writes it again
        for file in (
            UNFINISHED,  # guard: a deletion takes first all that makes a set
            "backup.json",
        ):  # if this is cut, either would make a set of what is left
            unlink_if_present(os.path.join(path, file))
    sync_directory(path)
    homes = os.path.join(path, "homes")
    volumes = [homes] if btrfs.inspect(homes) is not None else []
    for above in (os.path.join(path, "nested"), *(() if volumes else (homes,))):
        if not os.path.islink(above):  # guard: deleting a set follows no link to a directory of snapshots -> True
            volumes += [os.path.join(above, one) for one in btrfs.listing(above)]
    btrfs.delete(volumes)
    shutil.rmtree(path)
    sync_directory(directory)

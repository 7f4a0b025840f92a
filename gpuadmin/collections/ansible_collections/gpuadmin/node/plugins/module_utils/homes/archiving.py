"""Archives one home, verifies the archive, and only then deletes the home.

Every step can be cut and run again: .part → compared → on disk → renamed → the home is renamed → deleted, but for what
was changed after it was packed. The name that the home then has says which archive has it: nothing is deleted on the
strength of another one, nor of one that was changed, copied or put in its place since.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import Any

from .. import btrfs
from ..errors import NodeError
from ..fields import STAMP, quoted, valid_name
from ..files import sync_directory
from . import packing


def home_state(path: str, uid: int) -> str:
    """``absent`` or ``present``; anything that is not this uid's own directory is an error."""
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        return "absent"
    if not stat.S_ISDIR(facts.st_mode):
        raise NodeError(f"{path} is not a directory (a symbolic link is not followed): kept")
    if facts.st_uid != uid:
        raise NodeError(f"{path} belongs to uid {facts.st_uid}, not {uid}: kept")
    return "present"


def is_rest(entry: str, name: str) -> bool:
    """Whether an entry of the home root is a home of this name that was packed and is being deleted."""
    return re.match(rf"\.{re.escape(name)}\.gpuadmin-removed(-[0-9a-f]{{16}})?\Z", entry) is not None


def rests(homes: str, name: str) -> list[str]:
    """Their paths. Without the mark of an archive, as an older gpuadmin left them, they are in none for sure."""
    try:
        return sorted(os.path.join(homes, entry) for entry in os.listdir(homes) if is_rest(entry, name))
    except FileNotFoundError:
        return []


def _archive_of(rest: str, directory: str, name: str, uid: int) -> str | None:
    """The archive that a home was packed into before it got the name ``rest``; None if there is none like it now."""
    for one in archives(directory, name, uid):
        path = os.path.join(directory, one)
        # guard: what is deleted is in the very archive that it was packed into -> True
        if rest.endswith(f".gpuadmin-removed-{packing.mark(path)}"):
            return path
    return None


def archives(directory: str, name: str, uid: int) -> list[str]:
    """Finished archives of this account's home, oldest first, and none of those that have a label."""
    pattern = re.compile(rf"{re.escape(name)}-{uid}-{STAMP}\.tar\.(zst|gz)\Z")
    try:
        return sorted(entry for entry in os.listdir(directory) if pattern.match(entry))
    except FileNotFoundError:
        return []


def decided(homes: str, name: str) -> int:
    """The inode of a home, wherever in its archiving it is; 0 if there is none. Tells one home from the next."""
    for path in (os.path.join(homes, name), *rests(homes, name)):
        if os.path.lexists(path):
            return os.lstat(path).st_ino
    return 0


def archive(arguments: Mapping[str, Any]) -> str | None:
    """Archive and delete one home; return the archive's path, None if there was no home and no archive.

    ``homes``, ``name``, ``uid``, ``directory`` (of the archives), ``inode`` (of the directory that was decided).
    """
    homes, name, uid = arguments["homes"], arguments["name"], arguments["uid"]
    directory = arguments["directory"]
    if not valid_name(name):  # guard: a home is archived by a name that is one
        raise NodeError(f"{quoted(name)} is not a user's name")
    home = os.path.join(homes, name)
    for rest in rests(homes, name):  # what a cut left
        home_state(rest, uid)  # guard: the rest of a home is its owner's
        having = _archive_of(rest, directory, name, uid)
        if having is not None:
            packing.delete(rest, having)
        if home_state(rest, uid) == "present":
            _pack_and_delete(rest, name, uid, directory)
    if home_state(home, uid) == "present":
        if os.lstat(home).st_ino != arguments["inode"]:
            raise NodeError(f"{home} is not the directory that was decided on: kept")
        _pack_and_delete(home, name, uid, directory)
    done = archives(directory, name, uid)
    return os.path.join(directory, done[-1]) if done else None


def _pack_and_delete(path: str, name: str, uid: int, directory: str) -> None:
    homes = os.path.dirname(path)
    target = packing.archive_path(directory, name, uid)
    packing.clear_debris(directory, name, uid)
    packing.pack(path, target)
    removed = os.path.join(homes, f".{name}.gpuadmin-removed-{packing.mark(target)}")
    btrfs.make_movable(path)
    os.rename(path, removed)
    sync_directory(homes)  # guard: a home has the name of its archive on the disk before it is deleted
    deleted = packing.delete(removed, target)
    if os.path.lexists(removed):
        raise NodeError(
            f"packed into {target}, but not all of it could be deleted, so {removed} is kept "
            f"({', '.join(deleted.words)}); run this again to pack what is left of it"
        )

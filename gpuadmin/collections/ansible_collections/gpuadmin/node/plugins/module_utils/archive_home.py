"""Archives one home, verifies the archive, and only then deletes the home.

Every step can be cut and run again: .part → compared → on disk → renamed → the home is renamed → deleted, but for what
was changed after it was packed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import Any

from . import btrfs, packing
from .errors import NodeError
from .fields import shown, valid_name
from .files import sync_directory

STAMP = "[0-9]{8}T[0-9]{6}Z"


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


def removed_path(homes: str, name: str) -> str:
    return os.path.join(homes, f".{name}.gpuadmin-removed")


def _files(directory: str, name: str, uid: int, end: str) -> list[str]:
    pattern = re.compile(rf"{re.escape(name)}-{uid}-{STAMP}\.{end}\Z")
    try:
        return sorted(entry for entry in os.listdir(directory) if pattern.match(entry))
    except FileNotFoundError:
        return []


def archives(directory: str, name: str, uid: int) -> list[str]:
    """Finished archives of this account, oldest first."""
    return _files(directory, name, uid, r"tar\.(zst|gz)")


def decided(homes: str, name: str) -> int:
    """The inode of a home, wherever in its archiving it is; 0 where there is none. Tells one home from the next one."""
    for path in (os.path.join(homes, name), removed_path(homes, name)):
        if os.path.lexists(path):
            return os.lstat(path).st_ino
    return 0


def archive(arguments: Mapping[str, Any]) -> str | None:
    """Archive and delete one home; return the archive's path, None where there was no home and no archive.

    ``homes``, ``name``, ``uid``, ``directory`` (of the archives), ``inode`` (of the directory that was decided).
    """
    homes, name, uid = arguments["homes"], arguments["name"], arguments["uid"]
    directory = arguments["directory"]
    if not valid_name(name):
        raise NodeError(f"{shown(name)} is not a user's name")
    home, removed = os.path.join(homes, name), removed_path(homes, name)
    done = archives(directory, name, uid)
    if done and home_state(removed, uid) == "present":  # what a cut left: it was archived before it got this name
        packing.delete(removed, os.path.join(directory, done[-1]))
        if home_state(removed, uid) == "present":
            _pack_and_delete(removed, removed, name, uid, directory)
    if home_state(home, uid) == "present":
        if os.lstat(home).st_ino != arguments["inode"]:
            raise NodeError(f"{home} is another directory than the one that was decided: kept")
        if home_state(removed, uid) == "present":
            raise NodeError(f"{removed} is in the way: kept")
        _pack_and_delete(home, removed, name, uid, directory)
    done = archives(directory, name, uid)
    return os.path.join(directory, done[-1]) if done else None


def _pack_and_delete(path: str, removed: str, name: str, uid: int, directory: str) -> None:
    target = packing.archive_path(directory, name, uid)
    for debris in _files(directory, name, uid, r"tar\.(zst|gz)\.part"):
        os.unlink(os.path.join(directory, debris))
    packing.pack(path, target)
    if path != removed:
        handle = btrfs.open_directory(path)
        try:
            btrfs.make_movable(handle)
        finally:
            os.close(handle)
        os.rename(path, removed)
        sync_directory(os.path.dirname(removed))
    deleted = packing.delete(removed, target)
    if os.path.lexists(removed):
        raise NodeError(
            f"packed into {target}, but not all of it could be deleted, so {removed} is kept "
            f"({', '.join(deleted.words)}); run this again to pack what is left of it"
        )

"""The old home on a node: renamed when the storage host has it, and deleted when an admin says so."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import open_directory
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import ENTRIES, SECONDS, Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import valid_name
from ansible_collections.gpuadmin.node.plugins.module_utils.files import read_bytes, sync_filesystem, write_atomic
from ansible_collections.gpuadmin.node.plugins.module_utils.purge import purge
from ansible_collections.gpuadmin.node.plugins.module_utils.renaming import rename_new

from . import place, record, serving
from .record import Part


def _where(state: str, name: str) -> str:
    if not valid_name(name):
        raise NodeError("that is not the name of a person")
    return os.path.join(record.directory(state), f"{name}.aside.json")


def _noted(state: str, old: Part) -> dict[str, Any] | None:
    """Where the old home was put, as this host has written it down; None: it has not.

    The inode says which one it was. The device does not: it is of one boot alone (btrfs counts from the start).
    """
    data = read_bytes(_where(state, old.name))
    try:
        found: dict[str, Any] | None = None if data is None else json.loads(data)
        return found if found is None or found["inode"] == old.inode else None
    except (ValueError, KeyError, TypeError) as error:
        raise NodeError(f"{_where(state, old.name)} is damaged: {error}") from None


def _note(state: str, old: Part, where: str | None) -> None:
    text = json.dumps({"inode": old.inode, "where": where})
    write_atomic(_where(state, old.name), text.encode() + b"\n", mode=0o600)


@contextmanager
def _opened(where: str) -> Iterator[int]:
    """The directory of old homes, made if it is not there."""
    above = open_directory(os.path.dirname(where))
    try:
        handle = place.own(above, os.path.basename(where))
        try:
            yield handle
        finally:
            os.close(handle)
    finally:
        os.close(above)


def _unchanged(top: int, state: str, old: Part) -> None:
    """Raise NodeError where the open home is not what was compared."""
    new = f"{serving.manifest(state, old.name)}.now"
    budget = Budget(4 * SECONDS, 3 * ENTRIES)
    try:
        total = serving.now(top, serving.manifest(state, old.name), budget, new)
    finally:
        if os.path.lexists(new):
            os.unlink(new)
    if total.checksum != old.checksum:  # guard: an old home is what was moved
        raise NodeError(
            "the home on this host has changed since it was compared; it stays where it is, and the copy as well"
        )


def set_aside(path: str, state: str, old: Part) -> None:
    """Rename the old home to where root alone can enter. Done before: nothing."""
    known = _noted(state, old)
    if known is not None and known["where"] is None:  # that one was deleted, and this one has its inode
        _forget(state, old, of_now=False)
        known = None
    where = place.before(path) if known is None else str(known["where"])
    with _opened(where) as before:
        if place.inode_at(before, old.name) != old.inode:
            with place.opened(path) as homes:
                with place.home(homes, old.name, old.uid, old.inode) as top:
                    _unchanged(top, state, old)
                _note(state, old, where)
                try:
                    rename_new(old.name, homes, old.name, before)
                except OSError as error:
                    if error.errno != errno.EBUSY:
                        raise
                    raise NodeError("the home on this host is a mount of its own: umount it") from None
        elif known is None:  # an admin has renamed it
            _note(state, old, where)
    sync_filesystem(where)


def put_back(path: str, state: str, old: Part) -> None:
    """Give an old home its name again, where the move of its person is not to be. Never set aside: nothing."""
    known = _noted(state, old)
    if known is None or known["where"] is None:
        return
    with place.opened(path) as homes:
        if place.inode_at(homes, old.name) == old.inode:
            return
        with _opened(str(known["where"])) as before, place.home(before, old.name, old.uid, old.inode):
            rename_new(old.name, before, old.name, homes)
    sync_filesystem(path)  # guard: nobody is let in before their old home has its name on the disk


def discard(path: str, state: str, old: Part) -> dict[str, object]:
    """Delete an old home that was set aside. Deleted already: nothing. Raises NodeError for any other directory.

    Where it is was written down when it was set aside: by now something else is mounted on ``path``.
    """
    known = _noted(state, old)
    if known is None:  # guard: what is not known to be an old home is kept
        raise NodeError(f"this host has no record of an old home, for {path} or elsewhere: look for it yourself")
    if known["where"] is None:
        _forget(state, old)
        return {"deleted": 0, "bytes": 0, "kept": 0, "words": []}
    where = str(known["where"])
    if not os.path.isdir(where):
        raise NodeError(f"{where} is not there: mount the disk that it is on")
    with _opened(where) as before:
        going = os.path.exists(_going(state, old))
        if going and not place.inode_at(before, old.name):  # a cut came when it was gone
            _note(state, old, None)
            _forget(state, old)
            return {"deleted": 0, "bytes": 0, "kept": 0, "words": []}
        with place.home(before, old.name, old.uid, old.inode) as top:
            if not going:
                _unchanged(top, state, old)
                write_atomic(_going(state, old), b"", mode=0o600)  # a cut in the middle leaves a home that differs
        done = purge(before, os.fsencode(old.name), lambda entry: None)
        if done.kept:
            raise NodeError(f"not all of it could be deleted: {', '.join(done.words)}")
    _note(state, old, None)
    _forget(state, old)
    return dict(vars(done))


def _going(state: str, old: Part) -> str:
    return os.path.join(record.directory(state), f"{old.name}.{old.inode}.going")


def _forget(state: str, old: Part, *, of_now: bool = True) -> None:
    """What is known of a home that is gone. ``of_now``: as well what was read of the one that has its name."""
    read = (serving.manifest(state, old.name), serving.seen(state, old.name)) if of_now else ()
    for one in (_going(state, old), *read):
        if os.path.lexists(one):
            os.unlink(one)

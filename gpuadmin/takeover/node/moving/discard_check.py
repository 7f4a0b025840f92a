"""The check before old homes are discarded: the homes that were moved are read again on the storage host."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ansible_collections.gpuadmin.node.plugins.module_utils.backups import home_manifest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.home_walk import order
from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import open_directory
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import ENTRIES, SECONDS, Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.safe_walk import walk

from . import place, record
from .record import ASIDE


def missing(root: str, state: str, name: str, host: str) -> int:
    """How many entries of what was moved are not at their place any more: their person works there.

    Raises NodeError where the home is another one, or its manifest is not what was recorded: then nothing is known.
    """
    part = record.load(state, name, host)
    if part is None or part.step != ASIDE:
        raise NodeError(f"the home on {host} was not moved")
    manifest = record.path(state, name, host, "gz")
    total = home_manifest.total(home_manifest.read(manifest))
    if total.checksum != part.checksum:  # guard: what is discarded is in a manifest that is whole
        raise NodeError(f"{manifest} is not the manifest of what was moved")
    with place.opened(root) as homes, place.home(homes, name, part.uid) as top:
        here = os.dup(top) if part.main else open_directory(part.before, top)
        try:
            # guard: an old home is kept where the new one is another
            if os.fstat(here).st_ino != part.here:
                raise NodeError("their home on the storage host is not the directory that was moved")
            budget = Budget(SECONDS, ENTRIES)
            found = (os.fsdecode(entry.path) for entry in walk(here, budget=budget, skip=lambda *_: None, again=True))
            lacks = _lacking((line.path for line in home_manifest.read(manifest) if line.path != "."), found)
        finally:
            os.close(here)
    if lacks and lacks == total.entries - 1:  # guard: an old home of which nothing is elsewhere is kept
        raise NodeError("nothing of it is in their home on the storage host: it may be a new one, with the same inode")
    return lacks


def _lacking(wanted: Iterator[str], there: Iterator[str]) -> int:
    """How many of the one are not among the other; both are in the order of the walk."""
    lacking, now = 0, next(there, None)
    for path in wanted:
        while now is not None and order(now) < order(path):
            now = next(there, None)
        lacking += now != path
    return lacking

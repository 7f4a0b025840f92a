"""journald's files of single people, which have a uid in their name: they go with their person."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ansible_collections.gpuadmin.node.plugins.module_utils.files import sync_directory

from .ids import Mapping

DIRECTORY = "var/log/journal"
_NAME = re.compile(r"user-(\d+)((?:@[^/]*)?\.journal~?)\Z")  # systemd-journald.service(8), FILES


def _files(root: str) -> Iterator[tuple[str, str, int, str]]:
    """Directory, name, uid and the rest of the name of each such file."""
    top = os.path.join(root, DIRECTORY)
    for machine in sorted(os.listdir(top)) if os.path.isdir(top) else ():
        place = os.path.join(top, machine)
        for name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
            found = _NAME.match(name)
            if found:
                yield place, name, int(found[1]), found[2]


def rename(root: str, uids: Mapping) -> int:
    """Give each of these files the uid that its person has by now. Returns how many.

    It is done before journald opens them: it keeps its own in /run until systemd-journal-flush.service. What a unit of
    root's has logged as the same person, after a boot that was cut off, is there already: both stay, this one as what
    journald calls a file that was not closed (journalctl reads it).
    """
    changed, places = 0, set()
    for place, name, uid, rest in _files(root):
        becomes = uids(uid)
        if becomes is None:
            continue
        target = os.path.join(place, f"user-{becomes}{rest}")
        if os.path.lexists(target):  # guard: no log is replaced by another
            facts = os.stat(os.path.join(place, name))
            target = os.path.join(place, f"user-{becomes}@{facts.st_mtime_ns:016x}-{facts.st_ino:016x}.journal~")
        os.rename(os.path.join(place, name), target)
        places.add(place)
        changed += 1
    for place in places:
        sync_directory(place)  # guard: a log has its name on the disk before the step is done
    return changed


def find(root: str) -> dict[int, str]:
    """Uid → a file that has its log."""
    return {uid: os.path.join(place, name) for place, name, uid, _ in _files(root)}

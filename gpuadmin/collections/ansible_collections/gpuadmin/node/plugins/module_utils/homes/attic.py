"""The attic: what people leave behind, whole, as ``.gpuadmin-attic/USER-UID-TIME`` among the homes, for root alone.

One rename moves it there: it is in one of both places whenever a run is cut, and nothing is copied or deleted.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Sequence
from contextlib import ExitStack

from .. import btrfs, mounts
from ..errors import NodeError, in_words
from ..fields import STAMP
from ..files import make_directory
from ..renaming import rename_new

ATTIC = ".gpuadmin-attic"


def open_attic(root: str) -> int:
    """Given the directory of homes, return its attic, open; made where it is missing.

    Raises NodeError, OSError where somebody else could enter it, or a link is in its place.
    """
    path = os.path.join(root, ATTIC)
    make_directory(path, 0o700, os.geteuid(), os.getegid())
    handle = btrfs.open_directory(path)
    facts = os.fstat(handle)
    # guard: the attic is where root alone can enter
    if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
        os.close(handle)
        raise NodeError(f"{path} must be a directory that root alone can enter (mode 0700)")
    return handle


def move(root: str, path: str, user: str, uid: int, label: str = "") -> str:
    """Move ``path`` (below the directory of homes, such as ``minji``) into the attic. Returns its path there.

    Raises NodeError, OSError; then it is where it was, or the message says where it is.
    """
    full = os.path.join(root, path)
    inside = mounts.below(os.path.realpath(full), mounts.parse_mountinfo(mounts.read_mountinfo()))
    if inside:  # guard: nothing is moved that something is mounted in
        raise NodeError(f"{inside[0].point} is mounted inside of {full}: kept")
    above, name = os.path.split(path)
    with ExitStack() as stack:
        homes = _open(stack, btrfs.open_directory(root))
        place = _open(stack, btrfs.open_deep(above, homes))
        attic = _open(stack, open_attic(root))
        facts = os.stat(name, dir_fd=place, follow_symlinks=False)
        if facts.st_uid != uid:  # guard: what goes to the attic is its owner's
            raise NodeError(f"{full} belongs to uid {facts.st_uid}, not {uid}: kept")
        if stat.S_ISDIR(facts.st_mode):
            btrfs.make_movable(name, place)
        target = _free(attic, f"{user}-{uid}-", label)
        rename_new(name, place, target, attic)
        there = os.path.join(root, ATTIC, target)
        try:
            for handle in (attic, place):
                os.fsync(handle)  # guard: the attic has it on the disk before a run says so
        except OSError as error:
            raise NodeError(f"is {there} now, and a power cut may undo that: {in_words(error)}") from error
    return there


def _open(stack: ExitStack, handle: int) -> int:
    stack.callback(os.close, handle)
    return handle


def _free(attic: int, prefix: str, label: str) -> str:
    there = set(os.listdir(attic))
    while (name := prefix + time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) + label) in there:
        time.sleep(0.1)  # the name of the next second is free
    return name


def find_homes(directories: Sequence[str], name: str, uid: int) -> list[str]:
    """Given the attic and where an earlier gpuadmin put archives, return the paths of this account's homes there."""
    pattern = re.compile(rf"{re.escape(name)}-{uid}-{STAMP}(\.tar\.(zst|gz))?\Z")
    return [
        os.path.join(directory, entry)
        for directory in directories
        if os.path.isdir(directory)
        for entry in sorted(os.listdir(directory))
        if pattern.match(entry)
    ]


def is_rest(entry: str, name: str) -> bool:
    """Whether an entry among the homes is of this name's, packed by an earlier gpuadmin that was deleting it."""
    return re.match(rf"\.{re.escape(name)}\.gpuadmin-removed(-[0-9a-f]{{16}})?\Z", entry) is not None

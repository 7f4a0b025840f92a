"""Making homes, and the directory that they are in: under a temporary name first, so that a cut leaves no half home.
And whether a home is still as it was made."""

from __future__ import annotations

import filecmp
import os
import shutil
import stat
from collections.abc import Sequence

from .. import btrfs
from ..errors import NodeError
from ..files import make_directory, sync_directory, sync_filesystem
from ..safe_walk import Entry, same_tree, walk

NEW = ".gpuadmin-new"


def _copy_skeleton(source: str, target: str, uid: int, gid: int) -> None:
    """Copy files, directories and symlinks (as such) and give them away. Nobody else can enter ``target`` meanwhile."""
    with os.scandir(source) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            path = os.path.join(target, entry.name)
            mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), path)
            elif entry.is_dir(follow_symlinks=False):
                os.mkdir(path, 0o700)
                _copy_skeleton(entry.path, path, uid, gid)
                os.chmod(path, mode)
            elif entry.is_file(follow_symlinks=False):
                shutil.copyfile(entry.path, path, follow_symlinks=False)
                os.chmod(path, mode & 0o777)
            else:
                continue
            os.chown(path, uid, gid, follow_symlinks=False)


def make_root(path: str) -> None:
    """The home root: where it can be, a subvolume of its own, so that a snapshot of it holds only homes."""
    parent = os.path.dirname(path)
    if btrfs.subvolume(parent) is not None:
        btrfs.create(path)
        os.chmod(path, 0o755)
        sync_directory(parent)
    else:
        make_directory(path, 0o755)


def create(root: str, wanted: Sequence[tuple[str, int, int]], skeleton: str, *, subvolume: bool) -> None:
    """Build all homes (name, uid, gid) beside their names, sync once, rename them into place."""
    for name, uid, gid in wanted:
        temporary = f".{name}{NEW}"
        path = os.path.join(root, temporary)
        if os.path.lexists(path):  # left by a cut: nobody has ever seen it as a home
            shutil.rmtree(path)
        if subvolume:
            btrfs.create(path)
            os.chmod(path, 0o700)
        else:
            os.mkdir(path, 0o700)
        if os.path.isdir(skeleton):
            _copy_skeleton(skeleton, path, uid, gid)
        os.chown(path, uid, gid, follow_symlinks=False)
        os.chmod(path, 0o700)
    sync_filesystem(root)
    for name, _uid, _gid in wanted:
        target = os.path.join(root, name)
        if os.path.lexists(target):  # guard: a home that has just appeared is not replaced
            raise NodeError(f"{target} has just appeared; nothing was replaced")
        os.rename(os.path.join(root, f".{name}{NEW}"), target)
    sync_directory(root)


def is_untouched(home: int, skeleton: str, uid: int) -> bool:
    """Whether an open home has nothing but what a new one begins with: the files of the skeleton as they are there."""
    others: list[bytes] = []

    def enter(entry: Entry, parent: os.stat_result) -> bool:
        inside = same_tree(entry, parent)
        others.extend([] if inside else [entry.path])
        return inside

    for entry in walk(home, enter):
        if entry.facts.st_uid != uid:
            return False
        model = os.path.join(os.fsencode(skeleton), entry.path)
        try:
            facts = os.lstat(model)
        except OSError:
            return False
        # guard: something else under a name of the skeleton is somebody's
        if stat.S_IFMT(facts.st_mode) != stat.S_IFMT(entry.facts.st_mode):
            return False
        if stat.S_ISLNK(facts.st_mode):
            # guard: a link that leads elsewhere than the skeleton's is somebody's
            if os.readlink(model) != os.readlink(entry.name, dir_fd=entry.at):
                return False
        elif stat.S_ISREG(facts.st_mode):
            if not _same(entry.at, entry.name, model):
                return False
        elif not stat.S_ISDIR(facts.st_mode):
            return False
    return not others  # guard: what was not looked into, as a subvolume, is somebody's -> True


def _same(at: int, name: bytes, model: bytes) -> bool:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    try:
        # guard: what was compared before is compared again: a changed file may have its old size and time
        filecmp.clear_cache()
        return filecmp.cmp(f"/proc/self/fd/{handle}", os.fsdecode(model), shallow=False)
    finally:
        os.close(handle)

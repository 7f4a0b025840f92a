"""Where homes are on a host, opened so that nobody can put something else there: the directory, and a home in it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import open_directory
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import valid_name
from ansible_collections.gpuadmin.node.plugins.module_utils.safe_walk import identity

MOVING = ".gpuadmin-moving"  # in the directory of homes of the storage host: homes that arrive
BEFORE = ".before"  # beside a node's directory of homes, or in it where that is a disk of its own


@contextmanager
def opened(path: str) -> Iterator[int]:
    """The directory of homes, open. Raises NodeError where others than root can exchange what is in it."""
    if os.path.realpath(path) != path.rstrip("/"):  # guard: a directory of homes is no link to another
        raise NodeError(f"{path} leads through a symbolic link; name the directory itself")
    handle = open_directory(path)
    try:
        facts = os.fstat(handle)
        exchangeable = facts.st_uid != os.geteuid() or facts.st_mode & 0o022
        if exchangeable:  # guard: in a directory of homes only root gives names
            raise NodeError(f"{path} must be a directory of root's that nobody else can write to")
        yield handle
    finally:
        os.close(handle)


@contextmanager
def home(homes: int, name: str, uid: int, inode: int | None = None, device: int | None = None) -> Iterator[int]:
    """The home of a person in the open directory of homes. Raises NodeError where it is not theirs, or another one."""
    if not valid_name(name):
        raise NodeError("that is not the name of a person")
    try:
        handle = open_directory(name, homes)
    except OSError as error:
        why = "it is a link, or no directory" if error.errno in (errno.ELOOP, errno.ENOTDIR) else error.strerror
        raise NodeError(f"their home cannot be opened: {why}") from error
    try:
        facts = os.fstat(handle)
        if facts.st_uid != uid:  # guard: only a home of its person's is moved
            raise NodeError(f"their home belongs to uid {facts.st_uid}, not {uid}")
        # guard: what is moved is the directory that was decided on
        if (inode is not None and facts.st_ino != inode) or (device is not None and facts.st_dev != device):
            raise NodeError("their home is not the directory that was decided on")
        yield handle
    finally:
        os.close(handle)


def inode_at(at: int, name: str) -> int:
    """Which directory has that name in an open directory; 0: none."""
    try:
        facts = os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return 0
    return facts.st_ino if stat.S_ISDIR(facts.st_mode) else 0


def own(at: int, name: str) -> int:
    """Make a directory that root alone can enter, if it is not there, and open it. Raises NodeError for another's."""
    try:
        os.mkdir(name, 0o700, dir_fd=at)
        os.fsync(at)
    except FileExistsError:
        pass
    handle = open_directory(name, at)
    facts = os.fstat(handle)
    if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:  # guard: a home arrives where root alone can enter
        os.close(handle)
        raise NodeError(f"{name} must be a directory that root alone can enter (mode 0700)")
    return handle


def before(path: str) -> str:
    """The directory of a node's homes that were moved: beside that of homes, if that is on the same file system."""
    path = path.rstrip("/")
    if identity(os.stat(path))[0] == identity(os.stat(os.path.dirname(path) or "/"))[0]:
        return f"{path}{BEFORE}"
    return os.path.join(path, BEFORE)

"""Directories that several people share, on the storage host: a Unix group's, set-group-ID, with an ACL for new files.

gpuadmin makes them and deletes none. One that the site does not name any more is reported.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import stat
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from gpuadmin.common.records.homes import SharedDirectory

from .. import btrfs
from ..errors import NodeError, in_words
from ..files import make_directory, sync_directory
from ..lookup import group_id
from .directories import check_root

#: Those among the homes, which backups have as they have homes.
AMONG_HOMES = "_shared-"
MODE = 0o2770
#: Owner, group and mask may read, write and enter, others nothing (linux/posix_acl_xattr.h: version 2, then entries of
#: tag, permissions and id). With it the group can write to what members make, whatever their umask.
_NOBODY = 2**32 - 1
ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, bits, _NOBODY) for tag, bits in ((0x01, 7), (0x04, 7), (0x10, 7), (0x20, 0))
)
_DEFAULT_ACL = "system.posix_acl_default"
# linux/fs.h: struct fsxattr (flags, extent size, extents, project, …), and the flag that what is made inside inherits
_GET_PROJECT, _SET_PROJECT, _INHERITS = 0x801C581F, 0x401C5820, 0x200
_NONE = (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
_FIRST_PROJECT = 6174


@dataclass
class Found:
    """``notes``: what the site does not name any more; ``problems``: what could not be made, and why."""

    done: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def converge(
    wanted: Sequence[SharedDirectory], homes: str, mountpoint: str | None, mountinfo: str, *, check: bool
) -> Found:
    """Have these directories beside or among ``homes``, unless ``check``; the same is found in both cases."""
    found, beside = Found(), os.path.join(os.path.dirname(homes), "shared")
    gone = sorted({*_list(beside, ""), *_list(homes, AMONG_HOMES)} - {one.path for one in wanted})
    found.notes += [f"{path} is in nobody's settings any more (shared): kept" for path in gone]
    for one in wanted:
        try:
            # guard: nothing is made where the disk is not mounted
            check_root(os.path.dirname(one.path), mountpoint, mountinfo)
            _refuse_other_place(one, homes, beside)
            _bring(one, found, check)
        except (NodeError, OSError) as error:  # guard: one directory that cannot be made keeps no other
            found.problems.append(f"{one.path}: {in_words(error)}")
    return found


def _list(directory: str, prefix: str) -> list[str]:
    with suppress(FileNotFoundError):
        names = sorted(os.listdir(directory))
        return [os.path.join(directory, name) for name in names if name.startswith(prefix) and name[0] != "."]
    return []


def _refuse_other_place(one: SharedDirectory, homes: str, beside: str) -> None:
    other = os.path.join(beside, one.name) if one.backup else os.path.join(homes, AMONG_HOMES + one.name)
    # guard: what people share is not exchanged for an empty directory
    if os.path.lexists(other) and not os.path.lexists(one.path):
        raise NodeError(
            f"is at {other}, since `backup` was the other way round: move it here "
            f"(mkdir -p {os.path.dirname(one.path)} && mv {other} {one.path}), or leave `backup` as it was"
        )


def _bring(one: SharedDirectory, found: Found, check: bool) -> None:
    gid = group_id(one.group) if one.gid is None else one.gid
    if gid is None:
        raise NodeError(f"the group {one.group} is not known here: nothing made")
    try:
        facts = os.lstat(one.path)
    except FileNotFoundError:
        found.done.append(f"{one.path}: made for the group {one.group}")
        if not check:
            _make(one, gid)
        return
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != 0:  # guard: what is not root's directory is left alone
        raise NodeError("is not a directory of root's: kept. Move it away, or choose another name")
    handle = btrfs.open_directory(one.path)
    try:
        if (facts.st_gid, stat.S_IMODE(facts.st_mode), _acl(handle)) == (gid, MODE, ACL):
            return
        found.done.append(f"{one.path}: the group {one.group}'s alone again (gid {gid}, mode 2770, default ACL)")
        if not check:
            _give(handle, gid)
    finally:
        os.close(handle)


def _make(one: SharedDirectory, gid: int) -> None:
    """Under another name first: nobody sees it before it is its group's alone."""
    above, name = os.path.split(one.path)
    make_directory(above, 0o755)
    new = os.path.join(above, f".{name}.gpuadmin-new")
    if os.path.lexists(new):  # left by a cut
        os.rmdir(new)
    # among the homes it is a directory, which a snapshot of the homes has in it
    if one.backup or not btrfs.try_create(new):
        make_directory(new, 0o700)
    handle = btrfs.open_directory(new)
    try:
        set_project(handle, max([_FIRST_PROJECT, *(_project_at(path) for path in _list(above, ""))]) + 1)
        _give(handle, gid)
        os.fsync(handle)
    finally:
        os.close(handle)
    os.rename(new, one.path)
    sync_directory(above)


def _give(handle: int, gid: int) -> None:
    os.fchown(handle, 0, gid)
    os.setxattr(handle, _DEFAULT_ACL, ACL)  # guard: what a member makes is the group's to write, too
    os.fchmod(handle, MODE)


def _acl(handle: int) -> bytes:
    try:
        return os.getxattr(handle, _DEFAULT_ACL)
    except OSError:
        return b""


def _project_at(path: str) -> int:
    try:
        handle = btrfs.open_directory(path)
    except OSError:
        return 0
    try:
        return project(handle)
    finally:
        os.close(handle)


def project(handle: int) -> int:
    """The project that an open directory is in, by which ext4 and xfs count; 0 for none. Raises OSError."""
    facts = array.array("I", [0] * 7)
    return facts[3] if _asked(handle, _GET_PROJECT, facts) and facts[0] & _INHERITS else 0


def set_project(handle: int, number: int) -> None:
    """Put an open, empty directory, and what will be made in it, into a project; nothing where there are none."""
    facts = array.array("I", [0] * 7)
    if _asked(handle, _GET_PROJECT, facts):
        facts[0], facts[3] = facts[0] | _INHERITS, number
        _asked(handle, _SET_PROJECT, facts)


def _asked(handle: int, question: int, facts: array.array[int]) -> bool:
    try:
        fcntl.ioctl(handle, question, facts, True)
    except OSError as error:
        if error.errno in _NONE:
            return False
        raise
    return True

"""Quotas of btrfs: what the kernel counts for the group of subvolumes that people fill, and how that is bounded.

Read in sysfs (kernel 5.9 and later), as everybody may; changed by btrfs-progs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from . import btrfs
from .errors import NodeError, in_words
from .run import run

#: Of each file system: the group that has all subvolumes which people fill. Level 1; level 0 is of single subvolumes.
GROUP = "1/6174"
#: Of the groups that have one person's subvolumes: the level. Below it is the id of the subvolume that they began as.
OWN_LEVEL = 6174
#: In each subvolume that people fill: root's empty subvolume, in no group. To change a group, or a limit, the kernel
#: takes room in the subvolume where it is asked to (seen with 6.18): below a limit that is used up it changes neither.
#: It is in a directory that root alone enters: over NFS `find` and `du` take a subvolume that they see for a loop.
DESK = ".gpuadmin-limits"
SYSFS = "/sys/fs/btrfs"
_LIMITED = 1  # linux/btrfs.h: BTRFS_QGROUP_LIMIT_MAX_RFER


@dataclass(frozen=True)
class Group:
    """Bytes: what its subvolumes refer to, shared extents once; what is about to be written; at most, None: all."""

    used: int
    pending: int
    most: int | None


def enabled(uuid: str) -> bool:
    """Whether quotas are on. Raises NodeError for those of another kind, and a kernel that does not show them."""
    if not os.path.isdir(f"{SYSFS}/{uuid}"):
        raise NodeError(f"{SYSFS}/{uuid} is missing: it takes a kernel of 5.9 or later")
    if not os.path.isdir(f"{SYSFS}/{uuid}/qgroups"):
        return False
    mode = _read(f"{SYSFS}/{uuid}/qgroups/mode").strip()
    if mode == "squota":  # guard: quotas of another kind are somebody else's
        raise NodeError("simple quotas are on, by somebody else's choice: while a backup exists, they never shrink")
    return True


def counted(uuid: str) -> bool:
    """Whether the kernel has counted all: not while a rescan runs, or is needed."""
    return _read(f"{SYSFS}/{uuid}/qgroups/inconsistent").strip() == "0"


def own_group(subvolume: int) -> str:
    """The group of a person's subvolume, and of those that they make below it."""
    return f"{OWN_LEVEL}/{subvolume}"


def own_groups(uuid: str) -> list[str]:
    """All groups of that kind which a file system has."""
    names = os.listdir(f"{SYSFS}/{uuid}/qgroups")
    return sorted(name.replace("_", "/") for name in names if name.startswith(f"{OWN_LEVEL}_"))


def group(uuid: str, name: str = GROUP) -> Group | None:
    """What the kernel has of a group; None: there is none."""
    place = f"{SYSFS}/{uuid}/qgroups/{name.replace('/', '_')}"
    if not os.path.isdir(place):
        return None
    used, pending, most, flags = (
        int(_read(f"{place}/{name}") or 0) for name in ("referenced", "rsv_data", "max_referenced", "limit_flags")
    )
    return Group(used, pending, most if flags & _LIMITED else None)


def desk(path: str) -> str:
    """Where groups are changed of the file system that has the subvolume at ``path``: never below a limit."""
    for place in _desks(path):
        there = (
            btrfs.inspect(place) is not None
            # guard: what a person has put there is not root's
            and all(os.lstat(one).st_uid == 0 for one in (os.path.join(path, DESK), place))
        )
        if there:
            return place  # guard: groups are changed where no limit holds -> path
    return path


def _desks(path: str) -> tuple[str, str]:
    """That place, and where a release before had it."""
    return os.path.join(path, DESK, "desk"), os.path.join(path, DESK)


def has_desk(path: str) -> bool:
    return desk(path) == _desks(path)[0]


def make_desk(path: str) -> None:
    """Make that place, unless it is there. Raises NodeError where it cannot be, and what helps."""
    (place, above), new = _desks(path), os.path.join(path, f"{DESK}.new")
    if has_desk(path):
        return
    old = desk(path) == above
    if os.path.lexists(above) and not old:
        raise NodeError(f"{above} is not root's subvolume: move it away")
    # guard: what a person has put there is not taken away as root's
    if os.path.lexists(new) and os.lstat(new).st_uid != 0:
        raise NodeError(f"{new} is not root's: move it away")
    try:
        _remove_desk(new)
        os.mkdir(new, 0o700)
        btrfs.create(os.path.join(new, "desk"))
        if old:
            os.rmdir(above)
        os.rename(new, above)
    except OSError as error:
        with suppress(OSError):  # a full disk may refuse that, too; the next run finds it
            _remove_desk(new)
        raise NodeError(f"{place} cannot be made before somebody deletes something: {in_words(error)}") from None


def unmake_desk(path: str) -> None:
    """Take that place away. Raises OSError."""
    if desk(path) != path:
        _remove_desk(_desks(path)[1])


def _remove_desk(above: str) -> None:
    for one in (os.path.join(above, "desk"), above):
        if os.path.lexists(one):
            os.rmdir(one)


def members(path: str) -> set[int]:
    """The ids of the subvolumes that are in the group of the file system that ``path`` is on."""
    return all_members(path).get(GROUP, set())


def all_members(path: str) -> dict[str, set[int]]:
    """The same for all groups: group → ids of subvolumes."""
    found: dict[str, set[int]] = {}
    for line in run(("btrfs", "qgroup", "show", "--raw", "-p", path)).splitlines():
        row = line.split()
        if len(row) > 3 and row[0].startswith("0/") and row[3] != "-":
            for name in row[3].split(","):
                found.setdefault(name, set()).add(int(row[0][2:]))
    return found


def enable(path: str) -> None:
    """Turn quotas on; the kernel begins to count what is there, in the background."""
    run(("btrfs", "quota", "enable", path))


def disable(path: str) -> None:
    run(("btrfs", "quota", "disable", path))


def count_again(path: str) -> None:
    """Have the kernel count again, unless it does so already."""
    if "no rescan" in run(("btrfs", "quota", "rescan", "-s", path)):
        run(("btrfs", "quota", "rescan", path))


def make(path: str, name: str = GROUP) -> None:
    run(("btrfs", "qgroup", "create", name, path))


def join(path: str, ids: Iterable[int], name: str = GROUP) -> None:
    """Count these subvolumes in the group as well."""
    for one in ids:
        run(("btrfs", "qgroup", "assign", "--no-rescan", f"0/{one}", name, path))


def part(path: str, ids: Iterable[int], name: str = GROUP) -> None:
    """Count them in it no more. One that was deleted is in none, as soon as the kernel comes to it."""
    for one in ids:
        try:
            run(("btrfs", "qgroup", "remove", "--no-rescan", f"0/{one}", name, path))
        except NodeError:
            if one in all_members(path).get(name, ()):  # guard: a subvolume that stays in a group is told
                raise


def limit(path: str, most: int | str, name: str = GROUP) -> None:
    """Let the group have so many bytes (`none`: all). Who is above that can delete, but write nothing."""
    run(("btrfs", "qgroup", "limit", str(most), name, path))


def unmake(path: str, name: str = GROUP) -> None:
    """Take the group away, and its limit."""
    part(path, all_members(path).get(name, set()), name)
    run(("btrfs", "qgroup", "destroy", name, path))


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as stream:
            return stream.read(64)
    except FileNotFoundError:
        return ""

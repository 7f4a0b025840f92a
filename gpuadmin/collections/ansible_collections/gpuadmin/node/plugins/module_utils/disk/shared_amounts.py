"""What people share, held to its size by the kernel: by the quota of its subvolume on btrfs, of its project elsewhere.

People reach it over NFS alone, where nobody can make a subvolume or take a file out of a project.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuadmin.common.amounts import disk_amount
from gpuadmin.common.records.homes import SharedDirectory
from gpuadmin.common.text import size_words

from .. import btrfs, qgroups
from ..errors import NodeError, in_words
from ..homes.shared import project
from ..limits.room import Kept, subvolume
from ..mounts import Mount, nearest, parse_mountinfo, read_mountinfo
from ..user_quotas import KINDS, PROJECTS, UserQuotas, rounded


@dataclass(frozen=True)
class Bound:
    """What the kernel holds to: bytes that are there and at most (None: all); a new limit; what a limit becomes."""

    ask: Callable[[], tuple[int, int | None]]
    limit: Callable[[int | None], None]
    rounded: Callable[[int], int] = int


def hold(shared: Sequence[SharedDirectory], *, check: bool) -> Kept:
    """Give each its size, unless ``check``. Where nothing refuses more, that is a note."""
    kept = Kept()
    for one in shared:
        most = disk_amount(one.size)
        try:
            mount = nearest(one.path, parse_mountinfo(read_mountinfo()))
            if not os.path.isdir(one.path) or mount is None:
                continue  # said by what makes it
            quota, why = _of_subvolume(one.path) if mount.fstype == "btrfs" else _of_project(one.path, mount)
            if quota is not None:
                _bring(one.path, most, quota, kept, check)
            elif most is not None:
                kept.notes.append(f"{one.path}: nothing refuses more than {size_words(most)}: {why}")
        except (NodeError, OSError) as error:  # guard: one directory without its size keeps no other from it
            kept.problems.append(f"{one.path}: its size is not in force: {in_words(error)}")
    return kept


def _of_subvolume(path: str) -> tuple[Bound | None, str]:
    """The quota of a subvolume; None: nothing holds it, and why."""
    found, there = btrfs.inspect(path), subvolume(path)
    if found is None or there is None:
        return None, "it is among the homes, one subvolume for all backups, which has no quota of a part"
    uuid, name = there[0], f"0/{found.id}"
    if not qgroups.enabled(uuid):
        return None, "quotas of btrfs are off, since limits.disk_reserve is 0 or there are no limits"

    def ask() -> tuple[int, int | None]:
        now = qgroups.group(uuid, name)
        return (0, -1) if now is None else (now.used, now.most)  # not counted yet is no bound

    return Bound(ask, lambda most: qgroups.limit(qgroups.desk(path), "none" if most is None else most, name)), ""


def _of_project(path: str, mount: Mount) -> tuple[Bound | None, str]:
    quotas = UserQuotas(mount.source, PROJECTS)
    if mount.fstype not in KINDS or not quotas.enforced():
        return None, f"project quotas of {mount.fstype} are off{' (mount it with prjquota)' * (mount.fstype in KINDS)}"
    handle = btrfs.open_directory(path)
    try:
        number = project(handle)
    finally:
        os.close(handle)
    if not number:
        return None, f"it was made before project quotas were on: chattr -R +P -p NUMBER {path}, a number that is free"

    def ask() -> tuple[int, int | None]:
        now = quotas.of(number)
        return now.used, now.most

    return Bound(ask, lambda most: quotas.limit(number, most), rounded), ""


def _bring(path: str, most: int | None, quota: Bound, kept: Kept, check: bool) -> None:
    used, now = quota.ask()
    wanted = most if most is None else quota.rounded(most)
    if now == wanted:
        return
    over = f"; {size_words(used)} are there: nobody can write until it is less" * (most is not None and used > most)
    kept.done.append(f"{path}: may have {'as much as there is' if most is None else size_words(most)}{over}")
    if not check:
        quota.limit(most)
        if quota.ask()[1] != wanted:  # guard: a size that the kernel does not have is told
            raise NodeError("the kernel does not have it")

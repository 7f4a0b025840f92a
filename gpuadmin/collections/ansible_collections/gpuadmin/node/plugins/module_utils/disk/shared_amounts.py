"""What people share, held to its size by the kernel: by the quota of its subvolume on btrfs, of its project elsewhere.

People reach it over NFS alone, where nobody can make a subvolume or take a file out of a project.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from gpuadmin.common.amounts import disk_amount
from gpuadmin.common.records.homes import SharedDirectory
from gpuadmin.common.text import size_words

from .. import btrfs, qgroups
from ..errors import NodeError, in_words
from ..homes.shared import project
from ..limits.room import Kept
from ..mounts import nearest, parse_mountinfo, read_mountinfo
from ..user_quotas import KINDS, PROJECTS, UserQuotas, rounded


def hold(shared: Sequence[SharedDirectory], *, check: bool) -> Kept:
    """Give each its size, unless ``check``. Where nothing refuses more, that is a note."""
    kept = Kept()
    for one in shared:
        most = disk_amount(one.size)
        try:
            mount = nearest(one.path, parse_mountinfo(read_mountinfo()))
            if not os.path.isdir(one.path) or mount is None:
                continue  # said by what makes it
            hold_one = _hold_subvolume if mount.fstype == "btrfs" else _hold_project
            why = hold_one(one.path, most, mount.source, mount.fstype, kept, check)
            if why and most is not None:
                kept.notes.append(f"{one.path}: nothing refuses more than {size_words(most)}: {why}")
        except (NodeError, OSError) as error:  # guard: one directory without its size keeps no other from it
            kept.problems.append(f"{one.path}: its size is not in force: {in_words(error)}")
    return kept


def _hold_subvolume(path: str, most: int | None, _source: str, _fstype: str, kept: Kept, check: bool) -> str:
    """Returns why nothing holds it; empty where the kernel does."""
    found = btrfs.inspect(path)
    handle = btrfs.open_directory(path)
    try:
        uuid = btrfs.read_file_system_uuid(handle)
    finally:
        os.close(handle)
    if found is None or uuid is None:
        return "it is among the homes, one subvolume for all backups, which has no quota of a part"
    if not qgroups.enabled(uuid):
        return "quotas of btrfs are off, since limits.disk_reserve is 0 or there are no limits"
    name = f"0/{found.id}"
    now = qgroups.group(uuid, name)
    if now is None:
        return "btrfs has not begun to count it; the next provision sees to it"
    if now.most == most:
        return ""
    kept.done.append(_words(path, most, now.used))
    if not check:
        qgroups.limit(qgroups.desk(path), "none" if most is None else most, name)
        again = qgroups.group(uuid, name)
        if again is None or again.most != most:  # guard: a size that the kernel does not have is told
            raise NodeError("the kernel does not have it")
    return ""


def _hold_project(path: str, most: int | None, source: str, fstype: str, kept: Kept, check: bool) -> str:
    quotas = UserQuotas(source, PROJECTS)
    if fstype not in KINDS or not quotas.enforced():
        option = {"ext4": "tune2fs -O project -Q prjquota, unmounted, and", "xfs": ""}
        way = f" ({option[fstype]} mount it with prjquota)".replace("( ", "(") if fstype in KINDS else ""
        return f"project quotas of {fstype} are off{way}"
    handle = btrfs.open_directory(path)
    try:
        number = project(handle)
    finally:
        os.close(handle)
    if not number:
        return f"it was made before project quotas were on: chattr -R +P -p NUMBER {path}, a number that is free"
    now, wanted = quotas.of(number), None if most is None else rounded(most)
    if now.most == wanted:
        return ""
    kept.done.append(_words(path, most, now.used))
    if not check:
        quotas.limit(number, most)
        if quotas.of(number).most != wanted:
            raise NodeError("the kernel does not have it")
    return ""


def _words(path: str, most: int | None, used: int) -> str:
    if most is None:
        return f"{path}: may have as much as there is"
    over = f"; {size_words(used)} are there: nobody can write until it is less" * (used > most)
    return f"{path}: may have {size_words(most)}{over}"

"""What is in the way of carrying a volume of root's Docker: asked before anything is copied. Nothing is changed."""

from __future__ import annotations

import os
import re
import stat
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.attributes import ACLS, OddAttribute, read_attributes
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.home_walk import visits
from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import open_directory
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import below, parse_mountinfo, read_mountinfo

from ..renumbering.attributes import CAPABILITY, acl_moved, capability_moved
from .namespace import Person

#: What only root of the host can write.
_ROOTS = re.compile(r"trusted\.|security\.(?!capability$|selinux$)")


def cannot(told: dict[str, Any]) -> str:
    """Why a volume cannot be carried, by what its daemon says of it; empty: it can."""
    if told.get("Driver") != "local":  # guard: what another driver has elsewhere is not copied
        return f"has the driver {told.get('Driver')}: its data is elsewhere, and has to be moved with that driver"
    # guard: what a volume mounts from elsewhere is not copied
    if told.get("Options"):
        return "is mounted from elsewhere (options of its driver): make it again, with the same options"
    return ""


def mounted(where: str) -> None:
    """Raise NodeError if something is mounted inside of a volume: its daemon would delete what is in there, too."""
    real = os.path.realpath(where)
    inner = [one.point for one in below(real, parse_mountinfo(read_mountinfo())) if one.point != real]
    if inner:  # guard: what is mounted inside of a volume is neither copied nor removed
        raise NodeError(f"has something mounted inside: umount {inner[0]!r} first")


def needed(top: str, who: Person) -> int:
    """The bytes that a volume takes. Raises NodeError for the first thing in it that a copy would not have."""
    size, seen, budget = 0, set(), Budget(setting=False)
    handle = open_directory(top)
    try:
        _check(".", handle, who)
        for entry in visits(handle, {}, budget):
            if entry.leaving:
                continue
            file = os.open(
                entry.name,
                os.O_PATH
                | os.O_NOFOLLOW  # guard: what a link of a volume leads to is not looked at
                | os.O_CLOEXEC,
                dir_fd=entry.at,
            )
            try:
                facts = _check(os.fsdecode(entry.path), file, who)
            finally:
                os.close(file)
            if facts.st_nlink > 1 and not entry.is_directory:
                if facts.st_ino in seen:
                    continue
                budget.hold(b"an inode")
                seen.add(facts.st_ino)
            size += facts.st_blocks * 512
    finally:
        os.close(handle)
    return size


def _check(path: str, handle: int, who: Person) -> os.stat_result:
    facts = os.fstat(handle)
    # guard: device nodes are named, not left out
    if stat.S_ISCHR(facts.st_mode) or stat.S_ISBLK(facts.st_mode):
        raise NodeError(f"has device nodes, which only root can make: {path!r}")
    ids = [facts.st_uid, facts.st_gid]
    attributes = read_attributes(f"/proc/self/fd/{handle}")
    for name, value in attributes.items():
        if _ROOTS.match(name):  # guard: what only root can write is named, not left out
            raise NodeError(f"has attributes that only root can set: {name} of {path!r}")
        try:
            if name in ACLS:
                acl_moved(value, ids.append, ids.append)  # guard: an id in an ACL counts as well
            elif name == CAPABILITY:
                capability_moved(value, ids.append)  # guard: the namespace of a capability counts as well
        except OddAttribute as error:
            raise NodeError(f"{path!r} {error}") from None
    # guard: an id that the person does not have is refused
    if max(ids) > who.count:
        raise NodeError(f"has files of id {max(ids)} ({path!r}); {who.name} has {who.count} subordinate ids")
    return facts

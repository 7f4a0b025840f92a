"""What a host has of people's homes: on a node what would be moved, on the storage host where it would go."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils import mounts
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.databases import Databases
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.copy_stream import read_free_reserve
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import ENTRIES, SECONDS, Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.each import Failed, each
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import quoted
from ansible_collections.gpuadmin.node.plugins.module_utils.files import sync_filesystem
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import creating
from ansible_collections.gpuadmin.node.plugins.module_utils.safe_walk import Entry, same_tree, walk
from ansible_collections.gpuadmin.node.plugins.module_utils.textdb import number

from gpuadmin.common.records.moving import NodeHome, Place

from ..renumbering.accounts import texts
from ..renumbering.journal import Renumbering
from ..renumbering.running import busy
from . import place as places
from . import placing, record

MOST_ODD = 5


@dataclass(frozen=True)
class Asked:
    """A home that is measured."""

    path: str
    name: str
    uid: int


def measure(asked: Asked) -> NodeHome:
    """What is in somebody's home on a node: which directory it is, files, bytes, and what cannot be moved."""
    odd: list[str] = []
    files = size = entries = 0

    def enter(entry: Entry, parent: os.stat_result) -> bool:
        inside = same_tree(entry, parent)
        if not inside and len(odd) < MOST_ODD:
            odd.append(f"{quoted(os.fsdecode(entry.path))} is a file system or subvolume of its own")
        return inside

    def skipped(entry: Entry, why: str) -> None:
        if len(odd) < MOST_ODD and "moved" not in why and "exchanged" not in why:
            odd.append(f"{quoted(os.fsdecode(entry.path))} {why}")

    with places.opened(asked.path) as homes, places.home(homes, asked.name, asked.uid) as top:
        facts = os.fstat(top)
        before = _list_before(top)
        links: set[tuple[int, int]] = set()
        for entry in walk(top, enter, budget=Budget(SECONDS, ENTRIES), skip=skipped, again=True):
            entries += 1
            if stat.S_ISREG(entry.facts.st_mode):
                key = (entry.facts.st_dev, entry.facts.st_ino)
                if entry.facts.st_nlink == 1 or key not in links:
                    files += 1
                    size += min(entry.facts.st_size, entry.facts.st_blocks * 512)
                if entry.facts.st_nlink > 1:
                    links.add(key)
    return NodeHome(facts.st_dev, facts.st_ino, files, size, entries, before, odd)


def _list_before(home: int) -> list[str]:
    """Return the names in an open home that homes of other nodes have, or would have."""
    names = os.listdir(os.fsencode(f"/proc/self/fd/{home}"))
    return [os.fsdecode(one) for one in names if one.startswith(b"before-")][:100]


def accounts(host: Host, path: str, wanted: Mapping[str, int]) -> dict[str, Any]:
    """Who has which uid on this host, whose home is elsewhere, and who runs something."""
    data = Databases(texts(host))
    uids: dict[str, int] = {}
    elsewhere: dict[str, str] = {}
    for name in wanted:
        fields = data.passwd.get(name)
        uid = None if fields is None else number(fields[2])
        if fields is not None and uid is not None:
            uids[name] = uid
            if os.path.normpath(fields[5]) != os.path.join(path.rstrip("/"), name):
                elsewhere[name] = fields[5][:200]
    people = [Renumbering(name, uid, uid, uid) for name, uid in uids.items() if uid == wanted[name]]
    return {"uids": uids, "elsewhere": elsewhere, "busy": busy(people, host, 1)}


def node(path: str, wanted: Mapping[str, int], workers: int = 2) -> dict[str, Any]:
    """The homes of people (name → uid) on this host's own disk, and who has none that can be moved, and why."""
    report: dict[str, Any] = {"homes": {}, "problems": {}, "note": ""}
    try:
        found = mounts.parse_mountinfo(mounts.read_mountinfo())
        mount = mounts.nearest(path, found)
        # guard: what an automounter would bring from elsewhere is not asked for
        if mount is not None and mount.fstype == "autofs":
            if "indirect" in mount.options.split(","):  # one for all homes, as `provision` makes it, is direct
                report["note"] = f"{path} is an automounter's ({mount.source}): no home there is moved"
            return report
        if (mount is not None and mounts.NETWORK.match(mount.fstype)) or not os.path.isdir(path):
            return report
        tasks = []
        for name in wanted:
            home = os.path.join(path.rstrip("/"), name)
            own = mounts.mounted_on(home, found)
            if own is not None:  # guard: a home that is a mount of its own is not moved
                report["problems"][name] = _mounted(own)
            elif os.path.lexists(home):
                tasks.append(Asked(path, name, wanted[name]))
        for task, answer in each(measure, tasks, workers, SECONDS):
            if isinstance(answer, Failed):
                report["problems"][task.name] = answer.why
            else:
                report["homes"][task.name] = answer
    except (NodeError, OSError) as error:
        report["problems"].update({name: in_words(error) for name in wanted})
    return report


def _mounted(mount: mounts.Mount) -> str:
    """Why a home that is a mount stays: its files are on another host or disk, and no rename sets it aside."""
    kind = (
        f"{mount.fstype} from {quoted(mount.source)}"
        if mount.root == "/"
        else f"{quoted(mount.root)} of {mount.fstype}"
    )
    if mounts.NETWORK.match(mount.fstype) or mount.fstype == "autofs":
        return f"their home there is mounted from elsewhere ({kind}), and is not on its disk: findmnt shows it"
    return (
        f"their home there is a mount of its own ({kind}), which no rename sets aside: umount it, and copy what it has "
        "into the directory below"
    )


def _look_at(homes: int, name: str, uid: int, skeleton: str) -> Place:
    """What the storage host has at a home's place."""
    try:
        os.stat(name, dir_fd=homes, follow_symlinks=False)
    except FileNotFoundError:
        return Place("none", [])
    with places.home(homes, name, uid) as top:
        before = _list_before(top)
        if creating.is_untouched(top, skeleton, uid):
            return Place("untouched", before)
        if os.fstat(top).st_dev != os.fstat(homes).st_dev:  # guard: nobody is kept out for a move that cannot end
            raise NodeError(
                "their home there is used, and a subvolume or file system of its own: what is moved gets into it by no "
                "rename; copy it by hand"
            )
        return Place("theirs", before)


def storage(path: str, wanted: Mapping[str, int], skeleton: str, state: str) -> dict[str, Any]:
    """Where homes would go, what is free there, and what is known of those that were moved before."""
    report: dict[str, Any] = {"free": 0, "there": {}, "parts": [], "problems": {}}
    parts = record.known(state)
    with places.opened(path) as homes:
        space = os.fstatvfs(homes)
        report["free"] = max(space.f_bavail * space.f_frsize - read_free_reserve(homes), 0)
        for name, uid in wanted.items():
            try:
                report["there"][name] = _look_at(homes, name, uid, skeleton)
            except (NodeError, OSError) as error:
                report["problems"][name] = in_words(error)
        for one in parts:
            mains: Sequence[record.Part] = [other for other in parts if other.name == one.name and other.main]
            # a run with another --main may have left one that never came
            named = [main for main in mains if placing.placed(homes, main, None)] or mains
            done = placing.placed(homes, one, named[0] if named else None)
            if done and one.step == record.CHANGING:  # guard: a name that a cut has left counts when it is on the disk
                sync_filesystem(path)
            report["parts"].append({**asdict(one), "placed": done})
    return report

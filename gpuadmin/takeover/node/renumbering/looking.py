"""What a host has of people, what would happen, and what an earlier run has left; nothing is changed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils import mounts
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.databases import Databases
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import quoted
from ansible_collections.gpuadmin.node.plugins.module_utils.files import read_bytes

from gpuadmin.common.text import counted

from . import accounts, jobs, journal, journals, renaming, trees
from .crawl import crawl
from .decide import Home, Numbers, Wanted, decide
from .foreign import describe_foreign, find_programs
from .ids import Mapping as Ids
from .journal import Journal, Plan, Renumbering
from .running import find_grants

MOST_NOTES = 100  # a person can have read-only subvolumes and odd names without number


def look(
    wanted: Sequence[Wanted],
    numbers: Numbers,
    host: Host,
    *,
    measure: bool,
    site: Sequence[str] = (),
    homes: str = "",
    docker: str = "",
) -> dict[str, Any]:
    """What a host has of them, and what would happen; nothing is changed. ``docker``: where root's Docker
    has its data."""
    state = host.path(host.state)
    under_way = journal.load_own(state)
    if under_way is not None and under_way.step == journal.CLOSED:
        under_way = None
    of_homes = renaming.find(wanted, host, homes)
    decided = decide(wanted, accounts.texts(host), numbers, of_homes)
    people = decided.people if under_way is None else under_way.people
    report: dict[str, Any] = {
        "has": dict(decided.has), "problems": dict(decided.problems),
        # others may have the old ids of the last of a plan
        "people": {one.name: [one.new if under_way and under_way.rest else one.old, one.new] for one in people},
        "under_way": under_way is not None, "whole": under_way is not None and under_way.step == journal.WHOLE,
        "problem": "" if under_way is None else under_way.problem,
        "kept": {} if under_way is None else dict(under_way.kept),
        "staying": [] if under_way is None else under_way.find_staying(),
        "rest": under_way is not None and under_way.rest,
        "closed": closed(host) if under_way is None else {},
        "written": jobs.written(host.root, [one.old for one in people if one.old != one.new],
                                [one.was for one in people if one.was]),
        "renamed": _renamed(wanted, people, of_homes, host),
    }  # fmt: skip
    if under_way is None:
        report["problems"] |= find_grants(people, host)
        logs = journals.find(host.root)
        old = {one.old for one in people}
        for one in people:
            if one.new in logs and one.new not in old:
                words = f"{logs[one.new]} is the log of somebody who had uid {one.new}: move it away first"
                report["problems"].setdefault(one.name, words)
    moving = [one for one in people if one.moves("uid") or one.moves("gid")]
    if measure and moving and under_way is not None and not report["whole"]:
        report["seen"] = _measured(moving)["seen"]  # by which the controller knows how long a boot may take
    elif measure and moving and under_way is None:
        measured = _measured(moving)
        report["problems"] |= measured.pop("problems")
        report.update(measured)
        table = mounts.parse_mountinfo(mounts.read_mountinfo())
        more = [*describe_foreign(table, site, moving), *_find_containers(docker, moving)]
        report["notes"] = [*report["notes"], *more][:MOST_NOTES]
        for point in find_programs(table, site):
            words = f"a setuid program in {point}, which keeps the old ids, would run as another: mount it with nosuid"
            report["problems"] |= {one.name: words for one in moving}
        for key, (entries, _size, point) in sorted(report.pop("taken").items()):
            kind, number = key.split(" ")
            for one in moving:
                if any(move.new <= int(number) < move.new + move.count for move in one.moves(kind)):
                    words = f"{key} has {counted(entries, 'entry', 'entries')} of {point} already"
                    report["problems"].setdefault(one.name, f"{words}: chown or delete them first")
    return report


def _renamed(
    wanted: Sequence[Wanted], people: Sequence[Renumbering], homes: Mapping[str, Home], host: Host
) -> dict[str, Any]:
    """Name → the name that they have here, or had before it was begun, which directories get another one, and what
    keeps its name."""
    names = Databases(accounts.texts(host)).passwd.index
    found: dict[str, Any] = {
        one.name: {"was": one.was, "homes": [], "left": list(homes[one.name].left)}
        for one in wanted
        if one.was and (one.was in names or homes[one.name].left)
    }
    for one in people:
        if one.was:
            stay = [f"{path} keeps its name: {why}" for path, _, why in renaming.files(host, one, one.old) if why]
            left = [*homes.get(one.name, Home()).left, *stay]
            found[one.name] = {"was": one.was, "homes": [list(pair) for pair in one.homes], "left": left}
    return found


def _measured(people: Sequence[Renumbering]) -> dict[str, Any]:
    """What people have in the trees of this host, and what is in the way there."""
    plan = Plan.of(people)
    table = trees.find_local()
    report: dict[str, Any] = {
        "trees": {}, "unknown": list(table.unknown), "problems": {},
        "notes": [], "taken": {}, "seen": 0,
    }  # fmt: skip
    with trees.detach(table.local) as handles:
        for tree, handle in zip(table.local, handles):
            tally = crawl(handle, plan.task(1, tree.key, False))
            report["seen"] += tally.seen
            theirs = {}
            for one in people:
                uids, gids = Ids(one.moves("uid")), Ids(one.moves("gid"))
                parts = [value for uid, value in tally.uids.items() if uids(uid) is not None]
                parts += [value for gid, value in tally.gids.items() if gids(gid) is not None]
                if parts:
                    theirs[one.name] = [sum(part[0] for part in parts), sum(part[1] for part in parts)]
            if theirs:
                report["trees"][tree.point] = theirs
                if trees.is_read_only(handle) and tree.point != "/":
                    report["notes"].append(f"{tree.point} is read-only: what is there keeps the old ids")
                    # guard: nobody's program on a read-only disk runs as another
                    if not os.fstatvfs(handle).f_flag & os.ST_NOSUID:
                        words = f"{tree.point} is read-only, and has files of theirs: mount it with nosuid first"
                        report["problems"] |= dict.fromkeys(theirs, words)
            # guard: what a boot cannot have before people are there is in their way
            if tree.late and tally.stuck:
                words = f"{tree.point} waits for the network, or for somebody who mounts it (/etc/fstab)"
                keep = Journal(tuple(people), plan=plan).leave(1, dict.fromkeys(tally.stuck, words))
                words += ": umount it first, and chown by hand what is there"
                report["problems"] |= dict.fromkeys(keep.kept, words)
            if tally.acls:
                report["notes"].append(f"{tree.point}: {counted(tally.acls, 'ACL')} with their ids")
            if tally.snapshots:
                report["notes"].append(
                    f"{tree.point}: {counted(tally.snapshots, 'read-only subvolume')} not looked at: what is in them "
                    "keeps the old ids"
                )
            report["notes"] += [f"{tree.point}: {words}" for words in tally.words]
            if tally.within_reach:
                words = (
                    f"people can reach {tally.within_reach[0]} in {tree.point}, which is read-only and keeps the old "
                    "ids: a setuid program there would run as another; chmod 700 the directory that holds it first"
                )
                report["problems"] |= {one.name: words for one in people}
            for key, (entries, size) in tally.taken.items():
                counts = report["taken"].setdefault(key, [0, 0, tree.point])
                counts[0] += entries
                counts[1] += size
    return report


def _find_containers(docker: str, people: Sequence[Renumbering]) -> list[str]:
    """Root's containers that run as one of these people (docker run -u): they have the old uid inside, for ever."""
    top = os.path.join(docker, "containers")
    lines = []
    for name in sorted(os.listdir(top)) if os.path.isdir(top) else ():
        try:
            config = json.loads(read_bytes(os.path.join(top, name, "config.v2.json")) or b"{}")
            uid = str(config["Config"]["User"]).partition(":")[0]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        lines += [
            f"container {quoted(str(config.get('Name', name)))} of root's Docker runs as uid {uid}, {one.name}'s until "
            "now: make it again with another -u"
            for one in people
            if uid == str(one.old) != str(one.new)
        ]
    return lines


def closed(host: Host) -> dict[str, list[int]]:
    """Whom a run has closed that has begun nothing else, and the uids that it was for."""
    found = not_begun(host)
    return {} if found is None else {one.name: [one.old, one.new] for one in found.people}


def not_begun(host: Host) -> Journal | None:
    """What accounts were closed for, and nothing else was done of. Raises NodeError as ``journal.load_own`` does."""
    found = journal.load_own(host.path(host.state))
    if found is not None and found.step != journal.CLOSED:  # guard: what was begun is not given up
        return None
    return found

"""What is in the way of giving people other ids, by a host's databases: what is, or would be, two people's. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.databases import Databases
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.subids import Range, parse
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import FIRST_HUMAN_UID, quoted
from ansible_collections.gpuadmin.node.plugins.module_utils.textdb import number

from .ids import TEMPORARY
from .journal import Renumbering

FILES = ("subuid", "subgid")


def problem(name: str, uid: int, new: int, data: Databases) -> str | None:
    """What is in the way of one person by themselves, in words."""
    if uid < FIRST_HUMAN_UID or new < FIRST_HUMAN_UID:  # guard: a system account is not renumbered
        return f"uid {min(uid, new)} is a system account's"
    if new >= TEMPORARY.start or uid >= TEMPORARY.start:
        return f"uid {max(uid, new)} is among those that are kept for swaps"
    if data.passwd.count(name) > 1:
        return "has more than one line in /etc/passwd"
    others = [other for other in data.names_by_uid.get(uid, []) if other != name]
    if others:  # guard: a uid that two accounts share is not renumbered
        return f"shares uid {uid} with {quoted(others[0])}: a file could be either's"
    if data.has_group(name):
        gid = data.gid(name)
        if gid is None or gid < FIRST_HUMAN_UID:
            return f"the group '{name}' has gid {gid}, a system group's"
        twins = [other for other in data.groups_by_gid.get(gid, []) if other != name]
        if twins:
            return f"the groups '{name}' and {quoted(twins[0])} share gid {gid}"
        users = sorted(other for other in data.primary.get(gid, ()) if other != name)
        if users:  # guard: a group that is others' primary one is not renumbered
            return f"the group '{name}' is also the primary group of {quoted(users[0])}"
    return None


def name_problem(name: str, was: str, uid: int, data: Databases, texts: Mapping[str, str | None]) -> str | None:
    """What is in the way of giving somebody another name, in words."""
    found = data.uid(name)
    if data.passwd.get(was) is None:
        if found is not None and found != uid:  # guard: who has the new name already is not taken for the same person
            return f"has uid {found} here, and not {uid}: whether that is who is called {quoted(was)} is not known"
        return None
    if found is not None:
        return f"both {quoted(was)} and {quoted(name)} have an account here: one of the two has to go first"
    owners = {file: {one.owner for one in parse(texts.get(file) or "")} for file in FILES}
    tables = {"shadow": data.shadow, "group": data.group, "gshadow": data.gshadow}
    files = [file for file, table in tables.items() if table is not None and table.get(name) is not None]
    files += [file for file in FILES if name in owners[file]]
    if data.find_groups(name) and "group" not in files:  # guard: nobody gets what somebody of that name had
        files.append("group")
    if files:
        return f"{quoted(name)} is in /etc/{files[0]} already, without an account: take that out first"
    return None


def shared(people: Mapping[str, Renumbering], data: Databases, texts: Mapping[str, str | None]) -> dict[str, str]:
    """Who has ids that would change hands and are in another's range as well, and that other, if they are renumbered:
    whose a file of such an id is cannot be told. Ranges that stay may overlap: nothing happens to them."""
    found: dict[str, str] = {}
    for file, other in _ranges(texts):
        uid = number(other.owner)
        owner = other.owner if uid is None else data.names_by_uid.get(uid, [other.owner])[0]
        for one in people.values():
            for move in one.moves(file.removeprefix("sub")):
                if owner == one.name or not move.meets(other.start, other.count):
                    continue
                ids = _span(max(move.old, other.start), min(move.old + move.count, other.end))
                words = f"/etc/{file} gives {ids} to {{}} as well: a file could be either's"
                found.setdefault(one.name, words.format(quoted(owner)))
                if owner in people:
                    found.setdefault(owner, words.format(quoted(one.name)))
    return found


def _ranges(texts: Mapping[str, str | None]) -> list[tuple[str, Range]]:
    return [(file, one) for file in FILES for one in parse(texts.get(file) or "") if one.count]


def _span(first: int, end: int) -> str:
    return f"{first}" if end == first + 1 else f"{first}-{end - 1}"


def taken(people: Mapping[str, Renumbering], data: Databases, texts: Mapping[str, str | None]) -> dict[str, str]:
    """Who would get ids of somebody who keeps them."""
    found = {}
    moving = {one.name: one for one in people.values()}
    for one in people.values():
        holders = [name for name in data.names_by_uid.get(one.new, []) if name != one.name and name not in moving]
        if holders:  # guard: nobody gets a uid that another keeps
            found[one.name] = f"uid {one.new} belongs to {quoted(holders[0])} here"
        groups = [
            name
            for name in data.groups_by_gid.get(one.new, [])
            if name != one.name and not (name in moving and moving[name].group == one.new)
        ]
        if groups:  # guard: nobody gets a gid that another group keeps
            found.setdefault(one.name, f"gid {one.new} belongs to the group {quoted(groups[0])} here")
        for file, other in _ranges(texts):
            owner = moving.get(other.owner) or next(
                (two for two in moving.values() if str(two.old) == other.owner), None
            )
            leaves = owner is not None and any((file, other.start) == two[:2] for two in owner.subids)
            for move in one.moves(file.removeprefix("sub")):
                if other.start < move.new + move.count and move.new < other.end and not leaves:
                    # guard: nobody gets subordinate ids that another keeps
                    found[one.name] = (
                        f"/etc/{file} gives {_span(move.new, move.new + move.count)} to {quoted(other.owner)}"
                    )
    return found

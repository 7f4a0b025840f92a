"""What an earlier report says of hosts that are not looked at this time: it stays, with the day that it is from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NotRequired

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from gpuadmin.takeover.adoption.conflict import Conflict, Level, on

#: What is about all hosts of a site, and is judged again at each look.
_OF_ALL = frozenset(("no storage host", "no node"))


class _Conflict(TypedDict):
    kind: str
    words: str
    level: Level
    hosts: list[str]
    people: list[str]
    remedies: list[str]
    looked: NotRequired[str]


class _Host(TypedDict):
    groups: list[str]
    why: list[str]
    system: dict[str, Any] | None
    gpus: int
    people: list[str]


class _Person(TypedDict):
    hosts: dict[str, int]


class _Document(TypedDict):
    when: str
    hosts: dict[str, _Host]
    people: dict[str, _Person]
    conflicts: list[_Conflict]
    silent: dict[str, str]


_SHAPE = TypeAdapter(_Document)


@dataclass(frozen=True)
class Earlier:
    """`hosts`: their entries in adoption.json, as they are there. `uids`: person → host → uid. `silent`: those that
    did not answer, and why."""

    hosts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    uids: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    silent: Mapping[str, str] = field(default_factory=dict)


NOTHING = Earlier()


def read_earlier(document: Mapping[str, Any], looked: Collection[str], wanted: Collection[str] | None) -> Earlier:
    """Given an adoption.json and the hosts that are `looked` at this time, return what it says of the others.

    `wanted`: the hosts of which it is kept; None: all. Of a damaged one nothing is kept.
    """
    try:
        found = _SHAPE.validate_python(document)
    except ValidationError:
        return NOTHING
    others = [one for one in (*found["hosts"], *found["silent"]) if one not in looked]
    kept = [one for one in others if one in found["hosts"] and (wanted is None or one in wanted)]
    silent = {one: found["silent"][one] for one in others if one in found["silent"] and wanted is None}
    if not kept:
        return Earlier(silent=silent)
    uids = {
        name: {host: uid for host, uid in person["hosts"].items() if host in kept}
        for name, person in found["people"].items()
    }
    conflicts = [
        _carry_conflict(kept, one, found["when"][:10]) for one in found["conflicts"] if one["kind"] not in _OF_ALL
    ]
    return Earlier(
        {name: document["hosts"][name] for name in kept},
        {name: hosts for name, hosts in uids.items() if hosts},
        tuple(one for one in conflicts if one is not None),
        silent,
    )


def _carry_conflict(kept: Collection[str], told: _Conflict, day: str) -> Conflict | None:
    hosts = tuple(one for one in told["hosts"] if one in kept)
    if told["hosts"] and not hosts:
        return None
    lines = tuple(on(hosts) if line == on(told["hosts"]) else line for line in told["remedies"])
    return Conflict(
        told["kind"], told["words"], told["level"], hosts, tuple(told["people"]), lines, told.get("looked") or day
    )


def merged(found: Collection[Conflict]) -> list[Conflict]:
    """The same conflict on several hosts as one; remedies on hosts name all of them."""
    together: dict[tuple[str, str, tuple[str, ...]], list[Conflict]] = {}
    for one in found:
        together.setdefault((one.kind, one.words, one.people), []).append(one)
    result = []
    for ones in together.values():
        hosts = tuple(dict.fromkeys(host for one in ones for host in one.hosts))
        lines = (on(hosts) if line == on(one.hosts) else line for one in ones for line in one.remedies)
        result.append(replace(ones[0], hosts=hosts, remedies=tuple(dict.fromkeys(lines))))
    return result

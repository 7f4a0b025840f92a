"""People as the controller names them to a host: a name, a uid and a range of subordinate ids."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from .errors import NodeError
from .fields import FIRST_HUMAN_UID, quoted, whole_number


@dataclass(frozen=True)
class Person:
    name: str
    uid: int
    subids: range = range(0)

    def owns(self, uid: int) -> bool:
        return uid == self.uid or uid in self.subids


def parse(given: Iterable[Mapping[str, object]]) -> list[Person]:
    """Given {name, uid, subid_start, subid_count}, return people; whoever is refused refuses the whole call.

    Names and ranges are checked on the controller; a uid may be what a directory says on another host.
    """
    found: dict[str, Person] = {}
    uids: dict[int, str] = {}
    for raw in given:
        name, uid = raw.get("name"), whole_number(raw.get("uid"))
        if not isinstance(name, str) or uid is None or uid < FIRST_HUMAN_UID:
            raise NodeError(f"{quoted(name)}, uid {quoted(raw.get('uid'))}: refused")
        if name in found or uid in uids:
            raise NodeError(f"'{name}' or uid {uid} is named twice")
        start, count = whole_number(raw.get("subid_start") or 0), whole_number(raw.get("subid_count") or 0)
        if start is None or count is None:
            raise NodeError(f"'{name}': the subordinate ids {quoted(raw.get('subid_start'))} are refused")
        found[name] = Person(name, uid, range(start, start + count))
        uids[uid] = name
    return list(found.values())


def owner(people: Iterable[Person], uid: int) -> Person | None:
    return next((one for one in people if one.owns(uid)), None)


@contextmanager
def acting_as(uid: int, gid: int | None = None) -> Iterator[None]:
    """As somebody, for files and sockets, where this process is root: a file server may give root nothing.

    The real uid stays root's: they can neither end nor trace us. ``gid``: None for that of the same number.
    """
    if os.geteuid() != 0:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(uid if gid is None else gid)
    os.seteuid(uid)  # guard: what is a person's is asked for as that person
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)

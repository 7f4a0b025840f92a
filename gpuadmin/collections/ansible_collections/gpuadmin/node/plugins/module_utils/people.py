"""People as the controller names them to a host: a name, a uid and a range of subordinate ids."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gpuadmin.common.records.people import PersonEntry

from .errors import NodeError
from .fields import FIRST_HUMAN_UID, quoted


@dataclass(frozen=True)
class Person:
    name: str
    uid: int
    subids: range = range(0)

    def owns(self, uid: int) -> bool:
        return uid == self.uid or uid in self.subids


def parse(given: Iterable[PersonEntry]) -> list[Person]:
    """Given entries, return people; whoever is refused refuses the whole call.

    Names and ranges are checked on the controller; a uid may be what a directory says on another host.
    """
    found: dict[str, Person] = {}
    uids: set[int] = set()
    for one in given:
        if one.uid < FIRST_HUMAN_UID:
            raise NodeError(f"{quoted(one.name)}, uid {one.uid}: refused")
        if one.name in found or one.uid in uids:
            raise NodeError(f"'{one.name}' or uid {one.uid} is named twice")
        found[one.name] = Person(one.name, one.uid, range(one.subid_start, one.subid_start + one.subid_count))
        uids.add(one.uid)
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

"""gpuadmin.node.renumber: the uids that people have on this host become those that they are to have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import STATE

from gpuadmin.common.names import ACCOUNT

from ..adoption.machine import find_docker_data
from ..renumbering import looking, work
from ..renumbering.decide import Numbers, Wanted


@dataclass(frozen=True)
class Document:
    """Give people other uids, or names: their accounts, and everything on local file systems that carries the old ids.

    ``look`` reports who has which uid and, with ``measure``, what they have in each file system. ``close`` keeps them
    out. ``arm`` has the next boot do the work, in the unit ``gpuadmin-renumber.service``, before anybody can be there;
    after a power cut the boot that follows goes on where it was. ``open`` lets the people in again, once every host is
    done. ``give-up`` opens what ``close`` has closed, if nothing else was begun.
    """

    #: The people, with the uids that they are to have.
    people: Sequence[Wanted]
    #: What to do.
    step: Literal["look", "close", "arm", "open", "give-up"] = "look"
    #: Whether to walk the file systems.
    measure: bool = False
    #: Name → uid before and after, as it was decided; the host must still be like that.
    expected: Mapping[str, Sequence[int]] = field(default_factory=dict)
    #: Who stays out when the others are opened, because a file somewhere could not change hands.
    keep: Sequence[str] = ()
    #: The directory of everybody's homes, on the host that serves them.
    homes: str = ""
    #: How subordinate ids are counted: first and last uid of people, first id, ids of each.
    uid_first: int = 20000
    uid_last: int = 49999
    subid_base: int = 2147483648
    subid_size: int = 65536
    #: Names and addresses of the site's hosts: files that come from another server keep the old numbers.
    site: Sequence[str] = ()
    #: Directory of this host's own state.
    state_directory: str = STATE


ROLE = "accounts"


def operate(document: Document, check: bool) -> Answer:
    host = Host(state=document.state_directory)
    numbers = Numbers(document.uid_first, document.uid_last, document.subid_base, document.subid_size)
    wanted = document.people
    if any(one.was and not re.fullmatch(ACCOUNT, one.was) for one in wanted):  # guard: a name leads to no other place
        raise NodeError("people: was: not the name of an account")
    if document.step == "look":
        seen = looking.look(
            wanted, numbers, host, measure=document.measure, site=document.site, homes=document.homes,
            docker=host.path(find_docker_data(host.path)),
        )  # fmt: skip
        return Answer((), {"renumber": seen})
    if any(len(pair) != 2 for pair in document.expected.values()):
        raise NodeError("expected: each is a uid before and one after")
    words = [f"{name}: uid {old} becomes {new}" for name, (old, new) in document.expected.items() if old != new]
    words += [f"{one.was} becomes {one.name}" for one in wanted if one.was]
    if check:  # guard: check mode renumbers nobody
        given_up = [f"{name}: open again" for name in looking.closed(host)] if document.step == "give-up" else []
        return Answer(words if document.step == "arm" else given_up)
    if document.step == "close":
        found, granted = work.close(wanted, document.expected, numbers, host, document.homes)
        conflicts = [f"{name} {text}" for name, text in granted.items()]
        return Answer([f"{one.name}: closed" for one in found.people] if not granted else (), {}, conflicts)
    if document.step == "open":
        return Answer([f"{name}: open again" for name in work.reopen(host, document.keep)])
    if document.step == "give-up":
        return Answer([f"{name}: open again" for name in work.give_up(host, document.keep)])
    work.arm(host)
    return Answer(words)

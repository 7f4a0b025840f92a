"""Operations of the take-over; operation.py of the node code runs them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ansible_collections.gpuadmin.node.plugins.module_utils import background
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.operation import operation
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import STATE
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place
from ansible_collections.gpuadmin.node.plugins.module_utils.unit import BACKGROUND, available, unit_name, working

from gpuadmin.common.names import ACCOUNT
from gpuadmin.common.records.people import PersonEntry

from .adoption.collect import collect
from .adoption.machine import find_docker_data
from .moving import access, aside, discard_check, jobs, looking, placing, record
from .moving.record import Part
from .renumbering import closing, work
from .renumbering import looking as numbering
from .renumbering.decide import Numbers, Wanted
from .root_docker import jobs as carrying
from .root_docker import looking as root_docker
from .root_docker import record as carried


@dataclass(frozen=True)
class AdoptionOrder:
    """What a host is that gpuadmin has no part in yet, and who is on it.

    Looks at accounts, homes, public keys, groups, subordinate ids, sudo's rules, sshd, Docker, GPUs, file systems and
    exports, without root as far as that goes. Each part is looked at by itself and has a deadline.
    It changes nothing, starts nothing, and tells no password hash and no private key.
    """

    #: The account that gpuadmin logs in as, or will: it is meant to have sudo.
    admin: str = "gpuadmin"


@operation("adoption", AdoptionOrder, role="node_state", each="adoption", looks=True)
def report_adoption(document: AdoptionOrder, check: bool) -> Answer:
    return Answer(report={"adoption": collect(Place(admin=document.admin))})


#: A person's daemon can be as slow as they like.
_PROPERTIES = (*BACKGROUND, "RuntimeMaxSec=86400")


@dataclass(frozen=True)
class DockerMove:
    """Carry images and volumes of root's Docker into a person's own, on the same host.

    ``look`` reports what root's daemon has, and what was carried; ``carry`` brings it into the person's; ``discard``
    removes from root's daemon what was carried, and nothing else. The last two run in the unit
    ``gpuadmin-move-docker.service``, which goes on when the controller is interrupted.
    """

    #: What to do.
    step: Literal["look", "carry", "discard"]
    #: The directory with everybody's Docker data.
    data: str
    #: Who it is for; empty: it only looks.
    name: str = ""
    #: Their uid.
    uid: int = 0
    #: Ids of images.
    images: Sequence[str] = ()
    #: Names of volumes.
    volumes: Sequence[str] = ()
    #: Id → name of containers.
    containers: Mapping[str, str] = field(default_factory=dict)
    #: Directory of this host's own state.
    state_directory: str = STATE


@operation("move_docker", DockerMove)
def move_docker(document: DockerMove, check: bool) -> Answer:
    if document.step == "look":
        found = root_docker.look(root_docker.daemon())
        moved = carried.load(document.state_directory, document.name, document.uid) if document.name else None
        return Answer((), {"root_docker": replace(found, moved=moved)})
    things = [
        *(f"image {one}" for one in document.images),
        *(f"volume {one}" for one in document.volumes),
        *(f"container {one}" for one in (document.containers.values() if document.step == "discard" else ())),
    ]
    if check:  # guard: check mode carries nothing and removes nothing
        words = "carry" if document.step == "carry" else "remove"
        return Answer([f"{words} {one}" for one in things])
    arguments = {
        "name": document.name, "uid": document.uid, "data": document.data, "images": list(document.images),
        "volumes": list(document.volumes), "containers": dict(document.containers), "state": document.state_directory,
    }  # fmt: skip
    function = carrying.carry if document.step == "carry" else carrying.discard
    done = background.perform("move-docker", function, arguments, properties=_PROPERTIES)
    made = [f"{one['kind']} {one['name']}: {one['words']}" for one in done["parts"] if one["words"]]
    return Answer(made, {"docker_moved": done})


SECONDS = 1.0  # between two looks at how far a job is


@dataclass(frozen=True)
class HomesMove:
    """Move people's homes from the disks of nodes to the storage host.

    ``look`` reports what a host has; ``compare``, what has become of homes that were moved. ``key`` makes a key on the
    storage host, ``let-in`` lets it in on nodes, for these homes alone, until ``let-out`` and ``drop-key``. ``copy``
    fetches homes to the storage host while their people work; ``close`` keeps these out, and sees that they run
    nothing; ``take`` fetches what has changed, compares everything, and renames the homes in: it returns as soon as
    that is decided of somebody who is not among ``done``. ``aside`` renames the old ones, ``open`` lets the people in
    again. Where an old one cannot be renamed, ``put-back`` gives those of other nodes their names again, and
    ``take-back`` takes the homes out of theirs. ``discard`` deletes old homes on nodes. ``noted`` and ``forget`` tell
    the storage host of both. ``copy`` and ``take`` run in the unit ``gpuadmin-move-homes.service``, which goes on when
    the controller is interrupted.
    """

    #: What to do.
    step: Literal[
        "look",
        "compare",
        "key",
        "let-in",
        "copy",
        "close",
        "take",
        "aside",
        "put-back",
        "take-back",
        "open",
        "let-out",
        "drop-key",
        "discard",
        "noted",
        "forget",
    ]
    #: The directory of homes on this host.
    path: str
    #: Whether this host serves the homes.
    serves: bool = False
    #: The people that it is about.
    people: Sequence[PersonEntry] = ()
    #: The homes: that the storage host fetches, or the old ones on this node.
    homes: Sequence[Part] = ()
    #: Name → address and host key of the nodes; for ``look``, of a node, the address that the storage host has.
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: The key that is let in.
    key: str = ""
    #: An id of this run of gpuadmin.
    run_id: str = ""
    #: Of whom ``take`` has returned what came of their homes.
    done: Sequence[str] = ()
    #: What a new home begins with.
    skeleton: str = "/etc/skel"
    #: How many homes at once.
    workers: int = 2
    #: Directory of this host's own state.
    state_directory: str = STATE


@operation("move_homes", HomesMove)
def move_homes(document: HomesMove, check: bool) -> Answer:
    host = Host(state=document.state_directory)
    state = host.path(host.state)
    wanted = {one.name: one.uid for one in document.people}
    if document.step == "look":
        return Answer((), {"moving": _look(document, host, wanted)})
    if document.step == "compare":
        return Answer((), {"moved": _compared(document, state)})
    if check:  # guard: check mode moves nobody
        return Answer(_words(document))
    if document.step == "key":
        return Answer(["a key for this run"], {"move_key": access.make_key(state, document.nodes)})
    if document.step == "drop-key":
        access.drop_key(state)
        placing.leave(document.path, state, document.skeleton)
        return Answer(["the key of this run is gone"])
    if document.step == "let-in":
        access.let_in(host, document.key, document.path, document.homes)
        return Answer(["the storage host may fetch these homes"])
    if document.step == "let-out":
        access.let_out(host)
        return Answer(["the storage host may fetch nothing any more"])
    if document.step == "close":
        problems = closing.keep_out(wanted, host, jobs.VERB)
        words = [f"{name}: kept out" for name in wanted if name not in problems]
        return Answer(words, {"moved": {"parts": [], "problems": problems}})
    if document.step == "open":
        words = [f"{name}: let in" for name in closing.reopen(set(wanted), host, jobs.VERB)]
        return Answer(words, {"moved": {"parts": [], "problems": {}, "closed": closing.who(host, jobs.VERB)}})
    if document.step in ("copy", "take"):
        return _fetched(document)
    if document.step in ("forget", "noted"):
        return _recorded(document, state)
    if document.step == "take-back":
        return _taken_back(document, state)
    step = {"aside": aside.set_aside, "put-back": aside.put_back, "discard": aside.discard}[document.step]
    return _each(document, step, state)


def _look(document: HomesMove, host: Host, wanted: Mapping[str, int]) -> dict[str, Any]:
    state = host.path(host.state)
    found = {
        "homes": {}, "problems": {}, "free": 0, "there": {}, "parts": [], "note": "", "no_login": "", "reached": {},
        "working": available() and working(unit_name(jobs.VERB)),
        "closed": closing.who(host, jobs.VERB), "host_key": access.host_key(host),
        **looking.accounts(host, document.path, wanted),
    }  # fmt: skip
    if document.serves:
        nodes = access.reached({name: str(one["address"]) for name, one in document.nodes.items()})
        return {**found, "reached": nodes, **looking.storage(document.path, wanted, document.skeleton, state)}
    server = next((str(one["address"]) for one in document.nodes.values()), "")
    no_login = access.refuses_root(server)
    return {**found, "no_login": no_login, **looking.node(document.path, wanted, document.workers)}


def _compared(document: HomesMove, state: str) -> dict[str, Any]:
    parts, problems = [], {}
    for one in document.homes:
        try:
            missing = discard_check.missing(document.path, state, one.name, one.host)
            parts.append({"name": one.name, "host": one.host, "missing": missing})
        except (NodeError, OSError) as error:
            problems[one.name] = in_words(error)
    return {"parts": parts, "problems": problems}


def _words(document: HomesMove) -> list[str]:
    if document.step == "aside":
        return [f"{one.name}: moved to the storage host, the old home renamed" for one in document.homes]
    return [f"{one.name}: the old home deleted" for one in document.homes] if document.step == "discard" else []


def _fetched(document: HomesMove) -> Answer:
    arguments = {
        "homes": [vars(one) for one in document.homes], "nodes": document.nodes, "root": document.path,
        "workers": document.workers, "skeleton": document.skeleton, "state": document.state_directory,
    }  # fmt: skip
    if document.step == "copy":
        done = background.perform(jobs.VERB, jobs.copy, arguments)
    else:
        done = _taken(arguments, document.run_id, set(document.done))
    words = "copied" if document.step == "copy" else "here"
    news = [one for one in done["parts"] if one["name"] not in document.done]
    return Answer(sorted({f"{one['name']}: {words} from {one['host']}" for one in news}), {"moved": done})


def _taken(arguments: Mapping[str, Any], run_id: str, done: Collection[str]) -> Any:
    """What came of the homes by then, as soon as that is something of somebody who is not among ``done``."""
    if not available():
        return jobs.take(arguments)
    job = background.Job(jobs.VERB, jobs.take, arguments, jobs.VERB)
    while True:
        ended = background.attend(job, run_id, SECONDS)
        if ended is not None:
            if ended.problem is not None:
                raise NodeError(ended.problem)
            return ended.value
        progress = background.progress(job)
        found = json.loads(progress) if progress else {"parts": [], "problems": {}}
        # guard: who is done is let in while others are waited for
        if {*(one["name"] for one in found["parts"]), *found["problems"]} - set(done):
            return {**found, "working": True}


def _taken_back(document: HomesMove, state: str) -> Answer:
    done, problems = [], {}
    own: dict[str, list[Part]] = {}
    for one in document.homes:
        part = record.load(state, one.name, one.host)
        if part is not None:
            own.setdefault(part.name, []).append(part)
    for name, parts in own.items():
        try:
            jobs.take_back(document.path, parts, state)
            done.append({"name": name})
        except (NodeError, OSError) as error:  # guard: one person's home that stays keeps nobody else's there
            problems[name] = in_words(error)
    words = [f"{one['name']}: taken back from their place" for one in done]
    return Answer(words, {"moved": {"parts": done, "problems": problems}})


def _each(document: HomesMove, function: Callable[[str, str, Part], Any], state: str) -> Answer:
    done, problems = [], {}
    for one in document.homes:
        try:
            function(document.path, state, one)
            done.append(one.name)
        except (NodeError, OSError) as error:  # guard: what is odd about one home ends nobody else's
            problems[one.name] = in_words(error)
    words = {"aside": "the old home renamed", "put-back": "the old home has its name again"}.get(
        document.step, "the old home deleted"
    )
    parts = [{"name": name} for name in done]
    return Answer([f"{name}: {words}" for name in done], {"moved": {"parts": parts, "problems": problems}})


def _recorded(document: HomesMove, state: str) -> Answer:
    """What nodes have done is written down: an old home is aside, or it is gone and nothing is left to be known."""
    for one in document.homes:
        part = record.load(state, one.name, one.host)
        if part is None:
            continue
        if document.step == "forget":
            record.forget(state, part)
        elif part.step in (record.CHANGING, record.PLACED):  # changing: a cut came when it had its name
            record.save(state, replace(part, step=record.ASIDE))
    return Answer(changed=False)


@dataclass(frozen=True)
class RenumberOrder:
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


@operation("renumber", RenumberOrder, role="accounts")
def renumber(document: RenumberOrder, check: bool) -> Answer:
    host = Host(state=document.state_directory)
    numbers = Numbers(document.uid_first, document.uid_last, document.subid_base, document.subid_size)
    wanted = document.people
    if any(one.was and not re.fullmatch(ACCOUNT, one.was) for one in wanted):  # guard: a name leads to no other place
        raise NodeError("people: was: not the name of an account")
    if document.step == "look":
        seen = numbering.look(
            wanted, numbers, host, measure=document.measure, site=document.site, homes=document.homes,
            docker=host.path(find_docker_data(host.path)),
        )  # fmt: skip
        return Answer((), {"renumber": seen})
    if any(len(pair) != 2 for pair in document.expected.values()):
        raise NodeError("expected: each is a uid before and one after")
    words = [f"{name}: uid {old} becomes {new}" for name, (old, new) in document.expected.items() if old != new]
    words += [f"{one.was} becomes {one.name}" for one in wanted if one.was]
    if check:  # guard: check mode renumbers nobody
        given_up = [f"{name}: open again" for name in numbering.closed(host)] if document.step == "give-up" else []
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

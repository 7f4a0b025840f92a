"""gpuadmin.node.move_homes: homes go from the disks of nodes to the storage host."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ansible_collections.gpuadmin.node.plugins.module_utils import background
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import STATE
from ansible_collections.gpuadmin.node.plugins.module_utils.unit import available, unit_name, working

from gpuadmin.common.records.people import PersonEntry

from ..moving import access, aside, jobs, looking, moved, placing, record
from ..moving.record import Part
from ..renumbering import closing

VERB = jobs.VERB
SECONDS = 1.0  # between two looks at how far a job is


@dataclass(frozen=True)
class Document:
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


def operate(document: Document, check: bool) -> Answer:
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
        problems = closing.keep_out(wanted, host, VERB)
        words = [f"{name}: kept out" for name in wanted if name not in problems]
        return Answer(words, {"moved": {"parts": [], "problems": problems}})
    if document.step == "open":
        words = [f"{name}: let in" for name in closing.reopen(set(wanted), host, VERB)]
        return Answer(words, {"moved": {"parts": [], "problems": {}, "closed": closing.who(host, VERB)}})
    if document.step in ("copy", "take"):
        return _fetched(document)
    if document.step in ("forget", "noted"):
        return _recorded(document, state)
    if document.step == "take-back":
        return _taken_back(document, state)
    step = {"aside": aside.set_aside, "put-back": aside.put_back, "discard": aside.discard}[document.step]
    return _each(document, step, state)


def _look(document: Document, host: Host, wanted: Mapping[str, int]) -> dict[str, Any]:
    state = host.path(host.state)
    found = {
        "homes": {}, "problems": {}, "free": 0, "there": {}, "parts": [], "note": "", "no_login": "", "reached": {},
        "working": available() and working(unit_name(VERB)),
        "closed": closing.who(host, VERB), "host_key": access.host_key(host),
        **looking.accounts(host, document.path, wanted),
    }  # fmt: skip
    if document.serves:
        nodes = access.reached({name: str(one["address"]) for name, one in document.nodes.items()})
        return {**found, "reached": nodes, **looking.storage(document.path, wanted, document.skeleton, state)}
    server = next((str(one["address"]) for one in document.nodes.values()), "")
    no_login = access.refuses_root(server)
    return {**found, "no_login": no_login, **looking.node(document.path, wanted, document.workers)}


def _compared(document: Document, state: str) -> dict[str, Any]:
    parts, problems = [], {}
    for one in document.homes:
        try:
            missing = moved.missing(document.path, state, one.name, one.host)
            parts.append({"name": one.name, "host": one.host, "missing": missing})
        except (NodeError, OSError) as error:
            problems[one.name] = in_words(error)
    return {"parts": parts, "problems": problems}


def _words(document: Document) -> list[str]:
    if document.step == "aside":
        return [f"{one.name}: moved to the storage host, the old home renamed" for one in document.homes]
    return [f"{one.name}: the old home deleted" for one in document.homes] if document.step == "discard" else []


def _fetched(document: Document) -> Answer:
    arguments = {
        "homes": [vars(one) for one in document.homes], "nodes": document.nodes, "root": document.path,
        "workers": document.workers, "skeleton": document.skeleton, "state": document.state_directory,
    }  # fmt: skip
    if document.step == "copy":
        done = background.perform(VERB, jobs.copy, arguments)
    else:
        done = _taken(arguments, document.run_id, set(document.done))
    words = "copied" if document.step == "copy" else "here"
    news = [one for one in done["parts"] if one["name"] not in document.done]
    return Answer(sorted({f"{one['name']}: {words} from {one['host']}" for one in news}), {"moved": done})


def _taken(arguments: Mapping[str, Any], run_id: str, done: Collection[str]) -> Any:
    """What came of the homes by then, as soon as that is something of somebody who is not among ``done``."""
    if not available():
        return jobs.take(arguments)
    job = background.Job(VERB, jobs.take, arguments, VERB)
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


def _taken_back(document: Document, state: str) -> Answer:
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


def _each(document: Document, function: Callable[[str, str, Part], Any], state: str) -> Answer:
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


def _recorded(document: Document, state: str) -> Answer:
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

"""gpuadmin.node.move_homes: homes go from the disks of nodes to the storage host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from .. import background
from ..accounts.converge import Host
from ..answer import Answer
from ..errors import NodeError, in_words
from ..moving import access, aside, jobs, looking, moved, placing, record
from ..moving.aside import Old
from ..paths import STATE
from ..renumbering import closing
from ..unit import available, unit_name, working

VERB = "move-homes"


@dataclass(frozen=True)
class Person:
    """Somebody, with the uid that they have everywhere."""

    name: str
    uid: int


@dataclass(frozen=True)
class Document:
    """Move people's homes from the disks of nodes to the storage host.

    ``look`` reports what a host has; ``compare``, what has become of homes that were moved. ``key`` makes a key on the
    storage host, ``let-in`` lets it in on nodes, for these homes alone, until ``let-out`` and ``drop-key``. ``copy``
    fetches homes to the storage host while their people work; ``close`` keeps these out, and sees that they run
    nothing; ``take`` fetches what has changed, compares everything, and renames the homes in. ``aside`` renames the old
    ones, ``open`` lets the people in again. ``discard`` deletes old homes on nodes. ``noted`` and ``forget`` tell the
    storage host of both. ``copy`` and ``take`` run in the unit ``gpuadmin-move-homes.service``, which goes on when the
    controller is interrupted.
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
    people: Sequence[Person] = ()
    #: The homes that the storage host fetches.
    parts: Sequence[Mapping[str, Any]] = ()
    #: The old homes on this node.
    old: Sequence[Old] = ()
    #: Name → address and host key of the nodes.
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: The key that is let in.
    key: str = ""
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
        homes = [{key: value for key, value in asdict(one).items() if key != "checksum"} for one in document.old]
        access.let_in(host, document.key, document.path, homes)
        return Answer(["the storage host may fetch these homes"])
    if document.step == "let-out":
        access.let_out(host)
        return Answer(["the storage host may fetch nothing any more"])
    if document.step == "close":
        problems = closing.keep_out(wanted, host, VERB)
        words = [f"{name}: kept out" for name in wanted if name not in problems]
        return Answer(words, {"moved": {"parts": [], "problems": problems}})
    if document.step == "open":
        return Answer([f"{name}: let in" for name in closing.let_in(set(wanted), host, VERB)])
    if document.step in ("copy", "take"):
        return _fetched(document)
    if document.step in ("forget", "noted"):
        return _recorded(document, state)
    return _each(document, aside.set_aside if document.step == "aside" else aside.discard, state)


def _look(document: Document, host: Host, wanted: Mapping[str, int]) -> dict[str, Any]:
    state = host.path(host.state)
    found = {
        "homes": {}, "problems": {}, "network": False, "free": 0, "there": {}, "parts": [],
        "working": available() and working(unit_name(VERB)),
        "closed": closing.who(host, VERB), "host_key": access.host_key(host),
        **looking.accounts(host, document.path, wanted),
    }  # fmt: skip
    if document.serves:
        return {**found, **looking.storage(document.path, wanted, document.skeleton, state)}
    return {**found, **looking.node(document.path, wanted, document.workers)}


def _compared(document: Document, state: str) -> dict[str, Any]:
    parts, problems = [], {}
    for one in document.parts:
        name, node = str(one["name"]), str(one["host"])
        try:
            parts.append({"name": name, "host": node, "missing": moved.missing(document.path, state, name, node)})
        except (NodeError, OSError) as error:
            problems[name] = in_words(error)
    return {"parts": parts, "problems": problems}


def _words(document: Document) -> list[str]:
    if document.step == "aside":
        return [f"{one.name}: moved to the storage host, the old home renamed" for one in document.old]
    return [f"{one.name}: the old home deleted" for one in document.old] if document.step == "discard" else []


def _fetched(document: Document) -> Answer:
    function = jobs.copy if document.step == "copy" else jobs.take
    arguments = {
        "parts": [dict(one) for one in document.parts], "root": document.path, "workers": document.workers,
        "skeleton": document.skeleton, "state": document.state_directory,
    }  # fmt: skip
    done = background.perform(VERB, function, arguments)
    words = "copied" if document.step == "copy" else "here"
    people = sorted({f"{one['name']}: {words} from {one['host']}" for one in done["parts"]})
    return Answer(people, {"moved": done})


def _each(document: Document, function: Callable[[str, str, Old], Any], state: str) -> Answer:
    done, problems = [], {}
    for one in document.old:
        try:
            function(document.path, state, one)
            done.append(one.name)
        except (NodeError, OSError) as error:  # guard: what is odd about one home ends nobody else's
            problems[one.name] = in_words(error)
    words = "the old home renamed" if document.step == "aside" else "the old home deleted"
    parts = [{"name": name} for name in done]
    return Answer([f"{name}: {words}" for name in done], {"moved": {"parts": parts, "problems": problems}})


def _recorded(document: Document, state: str) -> Answer:
    """What nodes have done is written down: an old home is aside, or it is gone and nothing is left to be known."""
    for one in document.parts:
        part = record.load(state, str(one["name"]), str(one["host"]))
        if part is None:
            continue
        if document.step == "forget":
            record.forget(state, part)
        elif part.step in (record.CHANGING, record.PLACED):  # changing: a cut came when it had its name
            record.save(state, replace(part, step=record.ASIDE))
    return Answer(changed=False)

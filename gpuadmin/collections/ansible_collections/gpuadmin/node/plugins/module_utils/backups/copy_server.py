"""The other end of a second copy, on the host that keeps it: what an ssh key with a forced command may ask for.

It takes names and streams, never a path. Whoever holds the key can have copies back and add some, and can neither
change nor delete one, nor bring this host to delete one before its time: what came when is written down here, by this
host's clock, and the timer's sets are let go by that. This host's own role says what one home may take.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from ..budget import ENTRIES, SECONDS, unlimited
from ..each import MEMORY, bound_memory
from ..errors import NodeError, in_words
from ..fields import home_owner
from ..files import flocked, write_atomic
from ..paths import STATE
from . import arriving, backup_set, making, pruning, received, sending
from .backup_set import Backup
from .copy_stream import BOUNDS, Bounds, copy_stream
from .restore_plan import inner_path
from .retention import moment
from .verifying import Limits
from .wire import Link

PER_DAY = 48  # sets that are taken in 24 hours: a timer of every hour, and as many again
LOCK = ".lock"
PROMOTED = f"{STATE}/promoted.json"  # this host serves homes in place of the one that sends it copies
ALIVE = 60.0  # seconds between two signs of life
UNKNOWN = (
    "not understood; what an older gpuadmin asked for has changed: gpuadmin provision brings both hosts up to date"
)


@dataclass(frozen=True)
class Settings:
    """``ordinary``: how many of the timer's sets stay here; the role decides that, not the caller. None: all.

    ``limits``: what one home may take. ``wait``: seconds for another connection to end.
    """

    ordinary: int | None = None
    limits: Limits = field(default_factory=Limits)
    bounds: Bounds = BOUNDS
    wait: float = 120.0


def serve(directory: str, request: str, stdin: int = 0, stdout: int = 1, settings: Settings | None = None) -> str:
    """Do what was asked for in SSH_ORIGINAL_COMMAND; return what to print. Raises NodeError, OSError, ValueError."""
    settings = settings or Settings()
    verb, *rest = shlex.split(request) or [""]
    arriving.make_own(directory)
    if verb == "list" and not rest:
        return json.dumps({"sets": {one.name: backup_set.document(one) for one in backup_set.complete(directory)}})
    serves = os.path.lexists(PROMOTED)
    if verb == "serves" and not rest:
        return json.dumps({"serves": serves})
    if not rest or not backup_set.NAME.match(rest[0]):
        raise NodeError(UNKNOWN)
    if serves and verb != "send":  # guard: a host that serves homes takes no copies of older ones
        raise NodeError("this host serves the homes itself now (gpuadmin promote): it takes no copies")
    name, rest = rest[0], rest[1:]
    if verb == "begin" and not rest:
        with flocked(os.path.join(directory, LOCK), settings.wait):
            return json.dumps(_begin(directory, name, stdin, settings))
    if verb == "commit" and not rest:
        _prune(directory, settings)
        return json.dumps({"when": backup_set.now()})
    if (
        not rest
        # guard: only what is a user name is asked for
        or not home_owner(rest[0])
    ):
        raise NodeError(UNKNOWN)
    link = Link(stdin, stdout, bounds=settings.bounds)
    if (
        verb == "home"
        and len(rest) in (1, 2)
        and all(backup_set.NAME.match(one) for one in rest[1:])  # guard: a parent is named by a set's name
    ):
        _home(directory, name, rest, link, settings)
    elif verb == "verify" and len(rest) == 1:
        _verify(directory, name, rest[0], link, settings)
    elif verb == "send" and len(rest) in (1, 2):
        _send(_complete(directory, name), rest[0], "".join(rest[1:]), link)
    else:
        raise NodeError(UNKNOWN)
    return ""


def _complete(directory: str, name: str) -> Backup:
    found = backup_set.load(directory, name)
    if found is None:  # guard: a set that is asked for is there
        raise NodeError(f"there is no complete {name} here")
    return found


def _begin(directory: str, name: str, stdin: int, settings: Settings) -> dict[str, list[str]]:
    """Delete old sets first: that heals a full disk."""
    with tempfile.TemporaryFile() as document:
        copy_stream(stdin, document.fileno(), directory, most=received.DOCUMENT, bounds=settings.bounds)
        document.seek(0)
        claimed = received.parse(directory, name, document.read())
    _stamp_older(directory)
    backup_set.tidy(directory, name)
    arriving.clear(directory)
    _prune(directory, settings)
    if backup_set.load(directory, name) is None:
        _refuse_flood(directory)  # guard: so many sets in a day
    return arriving.begin(directory, claimed, settings.bounds)


def _prune(directory: str, settings: Settings) -> None:
    if settings.ordinary is not None:
        try:
            pruning.prune(directory, pruning.FOR_EVER, settings.ordinary)
        except NodeError as error:  # the new set is taken all the same; the caller sees this
            print(f"Warning: {error}", file=sys.stderr)


def _stamp_older(directory: str) -> None:
    """Sets that came before this host wrote down when: they came now, as far as anybody can know."""
    for one in backup_set.complete(directory):
        if received.arrived(one.path) is None:
            write_atomic(os.path.join(one.path, received.STAMP), received.stamp(), mode=0o600)


def _refuse_flood(directory: str) -> None:
    since = moment(backup_set.now()) - timedelta(days=1)
    times = [received.arrived(one.path) for one in backup_set.complete(directory)]
    if sum(when is not None and when > since for when in times) >= PER_DAY:
        raise NodeError(f"{PER_DAY} sets came in the last 24 hours: no more are taken")


def _home(directory: str, name: str, rest: Sequence[str], link: Link, settings: Settings) -> None:
    operation, fields, _data = link.get()
    if operation != "home":  # guard: a home begins with what it is
        raise NodeError(UNKNOWN)
    home = received.parse_home(rest[0], fields.get("home"))
    parent = rest[1] if len(rest) == 2 else None
    steps = arriving.arrive(directory, name, rest[0], parent, home, link, settings.limits, settings.bounds)
    next(steps)
    with _alive(link):
        for _ in steps:
            pass
    link.put("done")
    link.flush()


def _verify(directory: str, name: str, user: str, link: Link, settings: Settings) -> None:
    found = _complete(directory, name)
    if user not in found.homes:  # guard: a home that is verified is in the set
        raise NodeError(f"{name} has no home of {user} here")
    with _alive(link):
        when = making.verify_one(found, user, settings.limits)
    link.put("done", when=when)
    link.flush()


def _send(found: Backup, user: str, inner: str, link: Link) -> None:
    """Stream a home, or a part of it."""
    if user not in found.homes:  # guard: a home that is fetched is in the set
        raise NodeError(f"{found.name} has no home of {user} here")
    inner = inner_path(inner)
    source = sending.Source.of(found, user)
    with backup_set.reading(os.path.dirname(found.path), found.name):
        if inner:
            sending.send_part(source, inner, *backup_set.find_part_in_set(found, user, inner), link, unlimited())
        else:
            sending.send(source, link, unlimited())
    link.flush()


@contextmanager
def _alive(link: Link) -> Iterator[None]:
    """Send a sign of life from time to time: the caller gives up on a host that says nothing."""
    over = threading.Event()

    def say() -> None:
        while not over.wait(ALIVE):
            link.put("wait")
            link.flush()

    thread = threading.Thread(target=say, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(ALIVE)


def main(directory: str, ordinary: int | None = None, seconds: int = int(SECONDS), entries: int = ENTRIES) -> int:
    """What the forced command runs."""
    bound_memory(MEMORY)
    settings = Settings(ordinary, Limits(seconds, entries))
    try:
        answer = serve(directory, os.environ.get("SSH_ORIGINAL_COMMAND", ""), settings=settings)
        if answer:  # nothing may follow a stream
            print(answer)
    except (NodeError, OSError, ValueError) as error:
        print(f"Error: {in_words(error)}", file=sys.stderr)
        return 1
    return 0

"""What is under way on a host, in its state: a plan, what is done of it, and what inodes would lose on the way.

``plan.json`` is written whole before anything happens, and goes when all is done. ``done`` lists the steps that are
done, ``problem`` says what the last boot could not do, and the files of special.py hold what inodes would lose. Each is
on the disk before what follows from it. ``room`` keeps space for them: somebody may fill the disk meanwhile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import (
    make_directory,
    read_bytes,
    sync_directory,
    unlink_if_there,
    write_atomic,
)

from . import special
from .ids import Move

DIRECTORY = "renumber"
FORMAT = 2
VERB = "renumber"
BEGUN, WHOLE = "begun", "whole"  # the next boot carries it out; the last step before the accounts are opened
PROBLEM = "problem"
MOST_WORDS = 900  # of a problem
ROOM, ROOM_BYTES = "room", 64 << 20  # for what a boot writes down: some thousand long paths, and the account databases


@dataclass(frozen=True)
class Renumbering:
    """One person on one host. ``group``: the gid of the group of their name; None where there is none.

    ``subids``: subordinate ids that are counted from the uid, (file, first before, first after, count).
    ``was``: the name that becomes ``name``, if another; ``home``: the home that passwd gets then, if another;
    ``homes``: directories and what they are called afterwards.
    """

    name: str
    old: int
    new: int
    group: int | None = None
    subids: tuple[tuple[str, int, int, int], ...] = ()
    account: bool = True
    was: str = ""
    home: str = ""
    homes: tuple[tuple[str, str], ...] = ()

    @property
    def changes(self) -> bool:
        """Whether anything of theirs changes on this host."""
        return bool(self.was or self.moves("uid") or self.moves("gid"))

    def moves(self, kind: str) -> list[Move]:
        """What becomes what: ``kind`` is uid or gid."""
        own = self.old if kind == "uid" else self.group
        file = f"sub{kind}"
        single = [] if own is None or own == self.new else [Move(own, self.new)]
        return single + [Move(start, to, count) for name, start, to, count in self.subids if name == file]


@dataclass(frozen=True)
class Journal:
    """``closed``: name → the two fields of /etc/shadow that keep them out meanwhile, as they were, and whether
    accounts.json had them locked (None: they are not in it). ``verb``: what they are kept out for. ``points``: where
    file systems were mounted when accounts were closed; the boot changes nothing unless all are mounted again."""

    people: tuple[Renumbering, ...]
    closed: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    verb: str = VERB
    points: tuple[str, ...] = ()

    def moves(self, kind: str) -> list[Move]:
        return [move for one in self.people for move in one.moves(kind)]


def directory(state: str) -> str:
    return os.path.join(state, DIRECTORY)


def load(state: str) -> Journal | None:
    """What is under way; None: nothing. Raises NodeError for a damaged plan."""
    path = os.path.join(directory(state), "plan.json")
    data = read_bytes(path)
    if data is None:
        return None
    try:
        raw = json.loads(data)
        if raw["format"] != FORMAT:
            raise NodeError(f"{path} is of another version of gpuadmin: finish with that one (gpuadmin renumber)")
        people = tuple(
            Renumbering(**{**one, **{key: tuple(tuple(each) for each in one[key]) for key in ("subids", "homes")}})
            for one in raw["people"]
        )
        return Journal(people, raw["closed"], raw["verb"], tuple(raw["points"]))
    except (ValueError, KeyError, TypeError) as error:
        raise NodeError(f"{path} is damaged ({error}): nothing was changed; it says who has which ids by now") from None


def load_own(state: str, verb: str = VERB) -> Journal | None:
    """The same. Raises NodeError where people are kept out for another verb, which has to end first."""
    found = load(state)
    if found is not None and found.verb != verb:  # guard: who is kept out for another verb is not let in by this one
        raise NodeError(f"people are kept out for gpuadmin {found.verb}, which has not ended: run that again first")
    return found


def under_way(state: str) -> Journal | None:
    """What was begun and has not ended; None: nothing was, though accounts may be closed for it."""
    return load_own(state) if BEGUN in done(state) else None


def begin(state: str, journal: Journal) -> None:
    """Write a plan, before anything of it happens. What an earlier one left goes first."""
    make_directory(state, 0o755)
    make_directory(directory(state), 0o700)
    for name in ("done", PROBLEM):
        unlink_if_there(os.path.join(directory(state), name))
    special.forget(directory(state))
    if journal.verb == VERB:
        keep_room(state)
    text = json.dumps({"format": FORMAT, **asdict(journal)})
    write_atomic(os.path.join(directory(state), "plan.json"), text.encode(), mode=0o600)


def keep_room(state: str) -> None:
    """Take some of the disk for the boot. Raises OSError where it has none."""
    with open(os.path.join(directory(state), ROOM), "wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, ROOM_BYTES)  # guard: who fills the disk stops nobody's renumbering


def use_room(state: str) -> None:
    """Leave it to whatever is written from now on."""
    unlink_if_there(os.path.join(directory(state), ROOM))


def end(state: str) -> None:
    """All is done: the plan goes. The other files mean nothing without it, and the next ``begin`` deletes them."""
    use_room(state)
    os.unlink(os.path.join(directory(state), "plan.json"))
    sync_directory(directory(state))


def done(state: str) -> set[str]:
    """The steps that are done."""
    data = read_bytes(os.path.join(directory(state), "done"))
    return set() if data is None else set(json.loads(data))


def mark(state: str, step: str) -> None:
    """A step is done, and on the disk."""
    text = json.dumps(sorted(done(state) | {step}))
    # guard: a step that is done stays done after a power cut
    write_atomic(os.path.join(directory(state), "done"), text.encode(), mode=0o600)


def set_problem(state: str, words: str) -> None:
    """Keep what the last boot could not do, for whoever asks; "": nothing is in the way."""
    data = words[:MOST_WORDS].encode("utf-8", "backslashreplace")  # names of files may be no text
    write_atomic(os.path.join(directory(state), PROBLEM), data, mode=0o600)


def problem(state: str) -> str:
    return (read_bytes(os.path.join(directory(state), PROBLEM)) or b"").decode("utf-8", "replace")

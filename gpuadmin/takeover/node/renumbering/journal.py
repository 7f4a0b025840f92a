"""The journal of a renumbering in a host's state: its plan, the rest of it, and what inodes would lose on the way.

``plan.json`` is written whole before anything happens, again when a phase is over, and goes when all is done. The files
of special.py hold what inodes would lose. Each is on the disk before what follows from it. ``room`` keeps space for
them: somebody may fill the disk meanwhile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import (
    make_directory,
    read_bytes,
    sync_directory,
    unlink_if_present,
    write_atomic,
)

from . import special
from .ids import TEMPORARY, Move, Phases, phases
from .ids import Mapping as Ids
from .task import Task

DIRECTORY = "renumber"
FORMAT = 3
VERB = "renumber"
CLOSED, ARMED, WHOLE = "closed", "armed", "whole"  # the next boot carries it out; it is done, and the accounts closed
KINDS = ("uid", "gid")
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
        """Return the moves of a ``kind``, uid or gid."""
        own = self.old if kind == "uid" else self.group
        file = f"sub{kind}"
        single = [] if own is None or own == self.new else [Move(own, self.new)]
        return single + [Move(start, to, count) for name, start, to, count in self.subids if name == file]


@dataclass(frozen=True)
class Plan:
    """The moves of all people, of uids and of gids."""

    uid: Phases = field(default_factory=Phases)
    gid: Phases = field(default_factory=Phases)

    @classmethod
    def of(cls, people: Sequence[Renumbering]) -> Plan:
        """Raises NodeError where ids overlap, or too many change places."""
        return cls(*(phases([move for one in people for move in one.moves(kind)], kind) for kind in KINDS))

    def task(self, phase: int, tree: str, apply: bool) -> Task:
        kinds = self.uid, self.gid
        uids, gids = (Ids(kind.select(phase)) for kind in kinds)
        return Task(phase, tree, uids, gids, apply, *(() if apply else (Ids(_taken(kind)) for kind in kinds)))


def _taken(kind: Phases) -> list[Move]:
    """The ids that somebody gets, and nobody of the plan has now; each becomes itself."""
    new = [one for one in (*kind.first, *kind.second) if one.new < TEMPORARY.start]
    free = [one for one in new if not any(other.meets(one.new, one.count) for other in kind.first)]
    return [
        Move(TEMPORARY.start, TEMPORARY.start, len(TEMPORARY)),
        *(Move(one.new, one.new, one.count) for one in free),
    ]


@dataclass(frozen=True)
class Journal:
    """``closed``: name → the two fields of /etc/shadow that keep them out meanwhile, as they were, and whether
    accounts.json had them locked (None: they are not in it). ``verb``: what they are kept out for. ``points``: where
    file systems were mounted when accounts were closed; the boot changes nothing unless all are mounted again.

    ``plan``: what is left to do. ``kept``: name → why somebody's ids did not all change. ``rest``: everybody else has
    been let in. ``problem``: what the last boot could not do.
    """

    people: tuple[Renumbering, ...]
    closed: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    verb: str = VERB
    points: tuple[str, ...] = ()
    plan: Plan = field(default_factory=Plan)
    step: str = CLOSED
    kept: Mapping[str, str] = field(default_factory=dict)
    rest: bool = False
    problem: str = ""

    def leave(self, phase: int, stuck: Mapping[tuple[str, int], str]) -> Journal:
        """Return the rest for the next boot. ``stuck``: kind and first id of a move → the file that kept it."""
        kept = dict(self.kept) if phase == 2 else {}
        plan = Plan(*(
            getattr(self.plan, kind).leave(phase, {old for which, old in stuck if which == kind}) for kind in KINDS
        ))  # fmt: skip
        for kind in KINDS:
            left = getattr(plan, kind)
            for one, move in [(each, move) for each in self.people for move in each.moves(kind)]:
                for other in left.first if phase == 1 else left.second:
                    words = stuck.get((kind, other.old), "")
                    # guard: who has a file that did not change hands is kept out
                    if words and (other.old == move.old if phase == 1 else other.new == move.new):
                        kept.setdefault(one.name, words)
                    # guard: who was to have an id that is still on a file is kept out
                    elif phase == 1 and other.meets(move.new, move.count):
                        kept.setdefault(one.name, f"is to have {kind} {other.old}, which a file still has: {words}")
        return replace(self, plan=plan, kept=kept)

    def find_staying(self) -> list[int]:
        """The ids that are still on files, and the uids of those whose subordinate ids are."""
        moves = {(kind, one) for kind in KINDS for one in getattr(self.plan, kind).first}
        return sorted({
            move.old if move.count == 1 else one.old
            for one in self.people for kind in KINDS for move in one.moves(kind)
            if any(which == kind and other.old == move.old for which, other in moves)
        })  # fmt: skip


def directory(state: str) -> str:
    return os.path.join(state, DIRECTORY)


def load(state: str) -> Journal | None:
    """Return the journal; None: nothing is under way. Raises NodeError for a damaged plan."""
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
        plan = Plan(*(
            Phases(*(tuple(Move(**one) for one in raw["plan"][kind][phase]) for phase in ("first", "second")))
            for kind in KINDS
        ))  # fmt: skip
        more = {key: raw[key] for key in ("closed", "verb", "step", "kept", "rest", "problem")}
        return Journal(people, points=tuple(raw["points"]), plan=plan, **more)
    except (ValueError, KeyError, TypeError) as error:
        raise NodeError(f"{path} is damaged ({error}): nothing was changed; it says who has which ids by now") from None


def load_own(state: str, verb: str = VERB) -> Journal | None:
    """Return the journal. Raises NodeError where people are kept out for another verb, which has to end first."""
    found = load(state)
    if found is not None and found.verb != verb:  # guard: who is kept out for another verb is not let in by this one
        raise NodeError(f"people are kept out for gpuadmin {found.verb}, which has not ended: run that again first")
    return found


def begin(state: str, journal: Journal) -> None:
    """Write a plan before any of it happens. The files of an earlier plan go first."""
    make_directory(state, 0o755)
    make_directory(directory(state), 0o700)
    special.forget(directory(state))
    if journal.verb == VERB:
        keep_room(state)
    save(state, journal)


def save(state: str, journal: Journal) -> None:
    """Write the journal to the disk: a power cut undoes nothing that it has."""
    text = json.dumps({"format": FORMAT, **asdict(journal)})
    write_atomic(os.path.join(directory(state), "plan.json"), text.encode(), mode=0o600)


def keep_room(state: str) -> None:
    """Take some of the disk for the boot. Raises OSError where it has none."""
    with open(os.path.join(directory(state), ROOM), "wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, ROOM_BYTES)  # guard: who fills the disk stops nobody's renumbering


def use_room(state: str) -> None:
    """Give the room up, for all that is written from now on."""
    unlink_if_present(os.path.join(directory(state), ROOM))


def end(state: str) -> None:
    """Delete the plan, since all is done. The other files mean nothing without it; the next ``begin`` deletes them."""
    use_room(state)
    os.unlink(os.path.join(directory(state), "plan.json"))
    sync_directory(directory(state))


def shorten(words: str) -> str:
    """Return a problem as text that can be kept: names of files may be no text."""
    return words.encode("utf-8", "backslashreplace").decode("utf-8")[:MOST_WORDS]

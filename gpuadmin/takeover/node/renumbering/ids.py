"""Which ids become which, in two phases of which each may be done again: a cut in the middle maps nothing twice.

What becomes an id that somebody else of the plan still has (a swap, a chain) goes to a temporary id in the first phase
and from there to its own in the second. So no phase makes an id that the same phase maps: what it has mapped it leaves
alone (docs/decisions/0180-each-inode-once.md).
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

#: Above all ranges of subordinate ids that decision 2 gives out; nothing of the system's is there.
TEMPORARY = range(4_200_000_000, 2**32 - 2)
MOST_KNOWN = 1_000_000  # ids that a Mapping remembers; a person can own files of 65,536


@dataclass(frozen=True, order=True)
class Move:
    """``count`` ids from ``old`` on become those from ``new`` on."""

    old: int
    new: int
    count: int = 1

    def meets(self, first: int, count: int) -> bool:
        """Whether one of the old ids is among these."""
        return self.old < first + count and first < self.old + self.count


class Mapping:
    """Id → what it becomes; None: it stays."""

    def __init__(self, moves: Iterable[Move]):
        self.moves = sorted(moves)
        self._starts = [move.old for move in self.moves]
        self._known: dict[int, int | None] = {}

    def __call__(self, one: int) -> int | None:
        try:
            return self._known[one]
        except KeyError:
            pass
        move = self.find(one)
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        return self._known.setdefault(one, None if move is None else move.new + one - move.old)

    def find(self, one: int) -> Move | None:
        """The move that an id is part of."""
        place = bisect.bisect_right(self._starts, one) - 1
        return self.moves[place] if place >= 0 and self.moves[place].meets(one, 1) else None


@dataclass(frozen=True)
class Phases:
    """The moves of the first phase and of the second. The second is empty where nobody takes another's ids."""

    first: tuple[Move, ...] = ()
    second: tuple[Move, ...] = ()

    def select(self, phase: int) -> tuple[Move, ...]:
        """What a phase does. The second gives nobody an id that stayed on a file in the first, and waits for the files
        that should have come from there: one that has lost its setuid bit gets it again where it is."""
        if phase == 1:
            return self.first
        return tuple(
            move
            for move in self.second
            if not any(
                # guard: nobody gets an id that a file of somebody else still has
                one.meets(move.new, move.count)
                # guard: what did not get all back in one phase waits for the other
                or move.meets(one.new, one.count)
                for one in self.first
            )
        )

    def leave(self, phase: int, stuck: Collection[int]) -> Phases:
        """What a phase leaves to the next boot, where ids of the moves that begin with these stayed on files.

        What has changed hands is no part of it: somebody else may have the old ids by then.
        """
        if phase == 1:
            return Phases(tuple(move for move in self.first if move.old in stuck), self.second)
        done = {move for move in self.select(2) if move.old not in stuck}
        return Phases(self.first, tuple(move for move in self.second if move not in done))


def disjoint(moves: Sequence[Move], what: str) -> None:
    """Raise NodeError unless no id has two futures and no two become the same."""
    for attribute, words in (("old", "would become two"), ("new", "would be two people's")):
        spans = sorted((getattr(move, attribute), move.count) for move in moves)
        for (start, count), (after, _) in zip(spans, spans[1:]):
            if after < start + count:  # guard: no id becomes two, and no two become one
                raise NodeError(f"{what} {after} {words}")


def phases(moves: Iterable[Move], what: str = "id", temporary: range = TEMPORARY) -> Phases:
    """Given what becomes what, return it in two phases. Raises NodeError where ids overlap, or there are too many."""
    changing = sorted(move for move in moves if move.old != move.new)
    disjoint(changing, what)
    first, second, at = [], [], temporary.start
    for move in changing:
        if any(one.meets(temporary.start, len(temporary)) for one in (move, Move(move.new, move.old, move.count))):
            raise NodeError(f"{what} {move.old} or {move.new}: is among those that are kept for swaps")
        taken = any(other.meets(move.new, move.count) for other in changing)
        if taken:  # guard: an id that another still has is reached by a temporary one -> False
            if at + move.count > temporary.stop:
                raise NodeError(f"too many {what}s change places at once: renumber fewer people")
            first.append(Move(move.old, at, move.count))
            second.append(Move(at, move.new, move.count))
            at += move.count
        else:
            first.append(move)
    return Phases(tuple(sorted(first)), tuple(sorted(second)))

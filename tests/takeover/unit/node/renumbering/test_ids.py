"""Which ids become which, in two phases: killed anywhere and gone on with, each inode is mapped once."""

from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuadmin.takeover.node.renumbering import sweeping
from gpuadmin.takeover.node.renumbering.ids import Mapping, Move, Phases, phases
from gpuadmin.takeover.node.renumbering.task import Tally

TABLE: Sequence[tuple[list[Move], Phases]] = (
    ([], Phases(())),
    ([Move(1001, 1001)], Phases(())),
    ([Move(1001, 20001)], Phases((Move(1001, 20001),))),
    # a swap: both by way of an id of nobody's
    (
        [Move(1001, 1002), Move(1002, 1001)],
        Phases((Move(1001, 9000), Move(1002, 9001)), (Move(9000, 1002), Move(9001, 1001))),
    ),
    # a chain: only whoever gets an id that is still another's
    ([Move(1001, 1002), Move(1002, 1003)], Phases((Move(1001, 9000), Move(1002, 1003)), (Move(9000, 1002),))),
    # a range that moves by less than it is long
    ([Move(2000, 2010, 100)], Phases((Move(2000, 9000, 100),), (Move(9000, 2010, 100),))),
)


@pytest.mark.parametrize(("moves", "expected"), TABLE)
@pytest.mark.holds("an id that another still has is reached by a temporary one")
def test_what_goes_by_way_of_a_temporary_id(moves: list[Move], expected: Phases) -> None:
    assert phases(moves, temporary=range(9000, 10000)) == expected


@pytest.mark.parametrize(
    "moves",
    [
        [Move(1001, 1), Move(1001, 2)],
        [Move(1001, 5), Move(1002, 5)],
        [Move(1000, 5000, 10), Move(1005, 6000)],
        [Move(9500, 5)],
        [Move(5, 9500)],
    ],
)
@pytest.mark.holds("no id becomes two, and no two become one")
def test_ids_that_would_be_two_peoples(moves: list[Move]) -> None:
    with pytest.raises(NodeError):
        phases(moves, temporary=range(9000, 10000))


def test_too_many_at_once() -> None:
    with pytest.raises(NodeError, match="fewer people"):
        phases([Move(1, 1501, 1500), Move(1501, 4001, 1500)], temporary=range(9000, 9100))


@st.composite
def plans(draw: st.DrawFn) -> list[Move]:
    """Moves that are possible: swaps, cycles, chains and ranges that overlap what they become."""
    size = draw(st.integers(1, 4))
    slots = draw(st.permutations(range(8)))
    targets = draw(st.permutations(slots))
    return [Move(100 + old * size, 100 + new * size, size) for old, new in zip(slots, targets, strict=True)][
        : draw(st.integers(1, 8))
    ]


class Killed(Exception):
    """What a kill looks like from inside."""


class Disk:
    """Inodes in two trees, what is on the disk of them, logs that have an owner in their name, and steps that are done;
    killed after some more changes."""

    def __init__(self, owners: Sequence[int], plan: Phases) -> None:
        half = len(owners) // 2
        self.trees = [list(owners[:half]), list(owners[half:])]
        self.durable = [list(tree) for tree in self.trees]
        self.logs = list(owners)
        self.steps: set[str] = set()
        self.maps = {1: Mapping(plan.first), 2: Mapping(plan.second)}
        self.numbers = (1, 2) if plan.second else (1,)
        self.account = 0
        self.left = 0

    def spend(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1

    def sweep(self, phase: int, number: int, apply: bool) -> Tally:
        tally = Tally()
        for inode, owner in enumerate(self.trees[number]):
            becomes = self.maps[phase](owner)
            if becomes is not None and not apply:
                tally.uids[owner] = [1, 0]
            elif becomes is not None:
                self.spend()
                self.trees[number][inode] = becomes
                tally.changed += 1
        return tally

    def sync(self, number: int) -> None:
        self.spend()
        self.durable[number] = list(self.trees[number])

    def mark(self, step: str) -> None:
        self.spend()
        self.steps.add(step)

    def rename_logs(self, phase: int) -> None:
        self.spend()
        self.logs = [found if (found := self.maps[phase](one)) is not None else one for one in self.logs]

    def rename(self) -> None:
        self.spend()
        self.account += 1

    def go_on(self, steps: int) -> None:
        self.left = steps
        sweeping.drive(
            ["/", "/local"], self.numbers, self.sweep, lambda: self.steps, self.mark, self.rename_logs,
            [("accounts", self.rename)], self.sync,
        )  # fmt: skip


@given(moves=plans(), data=st.data())
@settings(max_examples=300, deadline=None)
@pytest.mark.holds("a tree is on the disk before it counts as done", "a log that has its name is not renamed again")
def test_killed_anywhere_the_end_is_the_same(moves: list[Move], data: st.DataObject) -> None:
    owners = data.draw(st.lists(st.integers(95, 140), min_size=2, max_size=12))
    expected = [found if (found := Mapping(moves)(one)) is not None else one for one in owners]
    disk = Disk(owners, phases(moves, temporary=range(9000, 10000)))
    for _ in range(data.draw(st.integers(0, 6))):
        try:
            disk.go_on(data.draw(st.integers(0, 12)))
        except Killed:
            if data.draw(st.booleans()):  # a power cut: of what was not synced some is on the disk, some is not
                disk.trees = [
                    [data.draw(st.sampled_from((now, then))) for now, then in zip(tree, durable, strict=True)]
                    for tree, durable in zip(disk.trees, disk.durable, strict=True)
                ]
    disk.go_on(1000)
    assert [*disk.trees[0], *disk.trees[1]] == disk.logs == expected
    assert disk.account >= 1


@pytest.mark.holds("no second phase and no account before the first phase is whole")
def test_what_cannot_change_hands_stops_all_that_follows() -> None:
    swept: list[Any] = []
    done: set[str] = set()

    def sweep(phase: int, number: int, _apply: bool) -> Tally:
        swept.append((phase, number))
        return Tally(failed=1, words=["'home/file' Read-only file system"]) if number == 0 else Tally()

    with pytest.raises(NodeError, match="Read-only"):
        sweeping.drive(
            ["a", "b"], (1, 2), sweep, lambda: done, done.add, swept.append, [("accounts", swept.clear)], lambda _: None
        )  # fmt: skip
    assert {phase for phase, _ in swept} == {1}
    assert done == set(), "a phase is done when all trees are"

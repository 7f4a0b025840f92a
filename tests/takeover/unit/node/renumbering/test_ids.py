"""Which ids become which, in two phases: killed anywhere and gone on with, each inode is mapped once."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuadmin.takeover.node.renumbering.ids import Mapping, Move, Phases, phases
from gpuadmin.takeover.node.renumbering.journal import Journal, Plan, Renumbering
from gpuadmin.takeover.node.renumbering.sweeping import run_phases
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
    """Inodes in two trees, what is on the disk of them, logs that have an owner in their name, and how far the host is;
    killed after some more changes. ``stuck``: inodes, as tree and number, that do not change hands."""

    def __init__(self, owners: Sequence[int], moves: Sequence[Move]) -> None:
        half = len(owners) // 2
        self.trees = [list(owners[:half]), list(owners[half:])]
        self.durable = [list(tree) for tree in self.trees]
        self.logs = list(owners)
        people = [
            Renumbering(
                f"p{move.old}", 10 + move.old, 5000 + move.old, None, (("subuid", move.old, move.new, move.count),)
            )
            for move in moves
        ]
        whole = phases(moves, temporary=range(9000, 10000))
        self.journal = Journal(tuple(replace(one, new=one.old) for one in people), plan=Plan(whole))
        self.stuck: set[tuple[int, int]] = set()
        self.finished: list[int] = []
        self.left = 0

    def spend(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1

    def sweep(self, plan: Plan, phase: int, number: int, apply: bool) -> Tally:
        tally, becomes = Tally(), Mapping(plan.uid.select(phase))
        for inode, owner in enumerate(self.trees[number]):
            move = becomes.find(owner)
            if move is not None and (not apply or (number, inode) in self.stuck):
                tally.keep([("uid", move.old)], f"{inode}", "Input/output error")
            elif move is not None:
                self.spend()
                self.trees[number][inode] = move.new + owner - move.old
                tally.changed += 1
        return tally

    def sync(self, number: int) -> None:
        self.spend()
        self.durable[number] = list(self.trees[number])

    def finish(self, phase: int, uids: Mapping, left: Journal) -> None:
        self.spend()
        self.logs = [found if (found := uids(one)) is not None else one for one in self.logs]
        self.spend()
        self.journal = left
        self.finished.append(phase)

    def go_on(self, steps: int) -> None:
        self.left = steps
        run_phases(self.journal, ["/", "/local"], self.sweep, self.sync, self.finish)


def put_where_they_go(owners: Sequence[int], moves: Sequence[Move]) -> list[int]:
    return [found if (found := Mapping(moves)(one)) is not None else one for one in owners]


@given(moves=plans(), data=st.data())
@settings(max_examples=300, deadline=None)
@pytest.mark.holds("a tree is on the disk before it counts as done")
def test_killed_anywhere_the_end_is_the_same(moves: list[Move], data: st.DataObject) -> None:
    owners = data.draw(st.lists(st.integers(95, 140), min_size=2, max_size=12))
    disk = Disk(owners, moves)
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
    assert [*disk.trees[0], *disk.trees[1]] == disk.logs == put_where_they_go(owners, moves)
    assert disk.journal.plan == Plan()
    assert disk.journal.kept == {}


@given(moves=plans(), data=st.data())
@settings(max_examples=300, deadline=None)
@pytest.mark.holds(
    "nobody gets an id that a file of somebody else still has", "who has a file that did not change hands is kept out",
    "who was to have an id that is still on a file is kept out",
)  # fmt: skip
def test_what_cannot_change_hands_keeps_its_own_people_out_and_the_others_go_on(
    moves: list[Move], data: st.DataObject
) -> None:
    """Boot after boot some files refuse, it is killed, and whoever has been let in makes files of their own."""
    owners = data.draw(st.lists(st.integers(95, 140), min_size=2, max_size=12))
    expected, disk = put_where_they_go(owners, moves), Disk(owners, moves)
    old = Mapping([Move(one.new, one.old, one.count) for one in moves])
    for _ in range(data.draw(st.integers(0, 4))):
        disk.stuck = {(tree, inode) for tree in (0, 1) for inode in range(6) if data.draw(st.booleans())}
        try:
            disk.go_on(data.draw(st.sampled_from((5, 15, 1000))))
        except Killed:
            continue
        names = {f"p{move.old}": move for move in moves}
        now, kept = [*disk.trees[0], *disk.trees[1]], disk.journal.kept
        for owner, end in zip(now, expected, strict=True):
            if owner == end:
                continue
            first = old.find(end)
            assert first is not None
            assert f"p{first.new}" in kept, "whose file it is"
            next_owner = old.find(owner)
            assert next_owner is None or f"p{next_owner.new}" in kept, "who was to have the id that it has"
        disk.journal = replace(
            disk.journal, people=tuple(one for one in disk.journal.people if one.name in kept), rest=True
        )
        disk.trees[0] += [move.new for name, move in names.items() if name not in kept]
        expected[len(disk.durable[0]) : len(disk.durable[0])] = [
            move.new for name, move in names.items() if name not in kept
        ]
        disk.durable[0] = list(disk.trees[0])
    disk.stuck = set()
    disk.go_on(10000)
    assert [*disk.trees[0], *disk.trees[1]] == expected
    assert (disk.journal.plan, disk.journal.kept) == (Plan(), {})


@pytest.mark.holds("no second phase and no account before the first phase is whole")
def test_what_is_nobodys_and_cannot_be_read_stops_all_that_follows() -> None:
    swept: list[tuple[int, int]] = []

    def sweep(_plan: Plan, phase: int, number: int, _apply: bool) -> Tally:
        swept.append((phase, number))
        return Tally(failed=1, words=["'home' Input/output error"]) if number == 0 else Tally()

    plan = Plan(phases([Move(1001, 1002), Move(1002, 1001)]))
    finished: list[int] = []
    with pytest.raises(NodeError, match="Input/output error"):
        run_phases(Journal((), plan=plan), ["a", "b"], sweep, lambda _: None, lambda phase, *_: finished.append(phase))
    assert {phase for phase, _ in swept} == {1}
    assert finished == [], "a phase is done when all trees are"

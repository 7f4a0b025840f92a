"""What one home may cost: entries, time, names in memory, and bytes that are written."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import budget
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget, OverBudget


def test_entries_are_counted_and_a_long_path_counts_more() -> None:
    one = Budget(60, 3)
    for _ in range(3):
        one.spend(b"a")
    with pytest.raises(OverBudget, match=r"more than 3 entries \(backups.home_entries\)"):
        one.spend(b"a")
    with pytest.raises(OverBudget, match="more than 3 entries"):
        Budget(60, 3).spend(b"a" * 3072)
    with pytest.raises(OverBudget, match="a path of more than"):
        budget.unlimited().spend(b"a" * (budget.PATH + 1))


def test_the_time_is_one_for_all_walks_and_the_entries_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(budget.time, "monotonic", lambda: now[0])
    first = Budget(10, 1, setting=False)
    first.spend(b"a")
    now[0] = 109
    second = first.again()
    second.spend(b"a")
    now[0] = 111
    with pytest.raises(OverBudget, match=r"longer than 10 seconds$"):
        second.check()


def test_names_take_memory_until_they_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MEMORY", 1000)
    one = Budget(60, 100)
    held = one.names([b"a" * 300, b"b" * 300])
    with pytest.raises(OverBudget, match="more names at once"):
        one.hold(b"c" * 300)
    one = Budget(60, 100)
    for name in held * 5:
        one.hold(name)
        one.release(name)


def test_what_is_written_has_an_end() -> None:
    one = Budget(60, 1, 10)
    one.write(10)
    with pytest.raises(OverBudget, match="too large to be copied"):
        one.write(1)

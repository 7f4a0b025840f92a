"""Counters survive a restart, a damaged file and another boot, and do not grow without an end."""

import json
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import counters as package
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.counters import Counters
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.exposition import Samples

KEYS = {"uuid": "GPU-1", "user": "alice"}
XID = "4,{},{},-;NVRM: Xid (PCI:0000:41:00): {}, pid=7, name=python, Ch 1\n"


def counters(tmp_path: Path, boot: str = "one") -> Counters:
    found = Counters(str(tmp_path / "counters.json"), boot)
    found.load()
    return found


def seconds(found: Counters) -> list[float | None]:
    samples = Samples()
    found.put(samples)
    return [samples.get(f"gpuadmin_gpu_{kind}_seconds_total", **KEYS) for kind in ("held", "measured", "active")]


def test_held_measured_active(tmp_path: Path) -> None:
    found = counters(tmp_path)
    found.add("GPU-1", "alice", 10.0, True)
    found.add("GPU-1", "alice", 10.0, False)
    found.add("GPU-1", "alice", 10.0, None)
    assert seconds(found) == [30, 20, 10]
    found.save()
    again = counters(tmp_path, "another boot")
    again.add("GPU-1", "alice", 5.0, True)
    assert seconds(again) == [35, 25, 15]
    assert (tmp_path / "counters.json").stat().st_mode & 0o777 == 0o600


def test_since_when_without_a_grant_survives_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, found, key = Clock(monkeypatch), counters(tmp_path), ("GPU-1", "alice")
    begin = clock.now
    assert found.ungranted([key]) == {key: begin}
    clock.now += 3600
    assert found.ungranted([key, ("GPU-2", "alice")]) == {key: begin, ("GPU-2", "alice"): clock.now}
    found.save()
    again = counters(tmp_path)
    clock.now += 10
    assert again.ungranted([key]) == {key: begin}, "the other one was let go, or granted"
    clock.now = begin - 60
    assert again.ungranted([key]) == {key: clock.now}, "a clock that was put back: no time is in the future"
    assert again.ungranted([]) == {}
    assert again.ungranted([key]) == {key: clock.now}


@pytest.mark.holds("what was hidden is not forgotten")
def test_what_was_hidden_for_a_while_is_held_since_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is under way in a socket is in no process; nobody could have opened it anew."""
    clock, found, key = Clock(monkeypatch), counters(tmp_path), ("GPU-1", "alice")
    begin = clock.now
    found.ungranted([key])
    for _ in range(3):
        clock.now += 3600
        assert found.ungranted([]) == {}
        clock.now += 3600
        assert found.ungranted([key]) == {key: begin}
    assert found.ungranted([], {key}) == {}
    assert found.ungranted([key]) == {key: clock.now}, "they had a grant in between"
    assert found.ungranted([], None) == {}
    clock.now += 1
    assert found.ungranted([key]) == {key: clock.now}, "it was open to everybody in between"
    found.ungranted([])
    clock.now += package.HIDDEN + 1
    assert found.ungranted([key]) == {key: clock.now}, "long ago"


@pytest.mark.holds("who let go is not kept for ever")
def test_who_let_go_is_not_kept_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MOST", 3)
    found = counters(tmp_path)
    for number in range(9):
        found.ungranted([("GPU-1", f"user{number}")])
    found.ungranted([])
    assert len(found._away) == 3


class Clock:
    """A clock that tests move, in place of time.time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        monkeypatch.setattr(package.time, "time", lambda: self.now)

    def passes(self, found: Counters, *active: bool | None) -> float | None:
        """So many looks, ten seconds apart; returns since when it is not used."""
        for one in active:
            self.now += 10
            found.add("GPU-1", "alice", 10.0, one)
        samples = Samples()
        found.put(samples)
        return samples.get("gpuadmin_gpu_unused_since_timestamp_seconds", **KEYS)


def test_since_when_it_is_held_and_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, found = Clock(monkeypatch), counters(tmp_path)
    assert clock.passes(found, False) is None, "of the time before nobody knows"
    assert clock.passes(found, False, False) == 1_000_010
    assert clock.passes(found, False, True) is None, "used"
    assert clock.passes(found, False) == 1_000_050
    assert clock.passes(found, None) is None, "perhaps used"
    assert clock.passes(found, False) == 1_000_070
    found.save()
    assert clock.passes(counters(tmp_path), False) == 1_000_070, "a restart of the collector forgets nothing"
    clock.now += 3600
    assert clock.passes(found) is None, "let go"
    assert clock.passes(found, False) is None, "of the hour in which nobody looked nobody knows"
    clock.now -= 7200
    assert clock.passes(found, False) is None, "a clock that was set back"


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"uses": [["a", "b", -1, 0, 0, 0]]}, {"uses": [["a", "b", "1", 0, 0, 0]]}, {"uses": None},
     {"xids": [["a", "x", 1]]}, {"uses": [["a"]]}, {"uses": [["a", "b", 1, 2, 3, 4, 5, 6]]}, {"place": "x"}],
)  # fmt: skip
def test_a_damaged_file_begins_with_nothing(tmp_path: Path, change: dict[str, object]) -> None:
    found = counters(tmp_path)
    found.add("GPU-1", "alice", 10.0, True)
    found.save()
    at = tmp_path / "counters.json"
    at.write_text(json.dumps({**json.loads(at.read_text()), **change}))
    again = Counters(str(at), "one")
    with pytest.raises(NodeError, match="start from zero"):
        again.load()
    assert seconds(again) == [None, None, None]


def test_what_was_not_added_to_for_longest_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MOST", 3)
    ticks = iter(range(100))
    monkeypatch.setattr(package.time, "time", lambda: float(next(ticks)))
    found = counters(tmp_path)
    for user in ("alice", "b", "c", "alice", "d", "e"):
        found.add("GPU-1", user, 1.0, None)
    samples = Samples()
    found.put(samples)
    assert {user for _, user in samples.of("gpuadmin_gpu_held_seconds_total")} == {"alice", "d", "e"}


def xids(found: Counters) -> dict[tuple[str, ...], float]:
    samples = Samples()
    found.put(samples)
    return dict(samples.of("gpuadmin_gpu_xid_errors_total"))


def test_errors_of_the_log_are_counted_once(tmp_path: Path) -> None:
    """/dev/kmsg gives all that is in its buffer to whoever opens it; a file gives a read as much as it can."""
    found = counters(tmp_path)
    for number, xid in ((5, 79), (6, 79), (7, 48)):
        found._count(XID.format(number, 10, xid))
    found._count("3,8,10,-;NVRM: Xid (PCI:0000:41:00): 48")
    found._count("12,9,10,-;NVRM: Xid (PCI:0000:41:00): 48")  # a program wrote that
    found._count("nonsense")
    expected = {("0000:41:00.0", "79"): 2, ("0000:41:00.0", "48"): 2}
    assert xids(found) == expected
    found.save()
    again = counters(tmp_path)
    again._count(XID.format(7, 10, 48))
    assert xids(again) == expected, "the same boot, and read before"
    other = counters(tmp_path, "two")
    other._count(XID.format(0, 10, 48))
    assert xids(other)["0000:41:00.0", "48"] == 3


def test_more_kinds_of_errors_than_there_are_become_no_more_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "MOST_XIDS", 2)
    found = counters(tmp_path)
    for number, xid in enumerate((79, 48, 31, 79, 13, 48)):
        found._count(XID.format(number, 10, xid))
    assert xids(found) == {("0000:41:00.0", "79"): 2, ("0000:41:00.0", "48"): 2}, "those that are known go on"


def test_the_log_is_read_on_from_where_it_was(tmp_path: Path) -> None:
    at = tmp_path / "kmsg"
    at.write_text(XID.format(1, 10, 48))
    found = counters(tmp_path)
    found.read_log(str(at))
    with at.open("a") as stream:
        stream.write(XID.format(2, 10, 48))
    found.read_log(str(at))
    assert xids(found) == {("0000:41:00.0", "48"): 2}
    with pytest.raises(OSError, match="No such file"):
        counters(tmp_path).read_log(str(tmp_path / "none"))

"""Who holds which GPU and since when, with a grant or without; records of the sampler are held to their form."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import counters as package
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import record
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.counters import Counters
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.devices import Key
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.exposition import Samples
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.gpu_holders import (
    Holding,
    Labels,
    holdings,
    list_pids,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.granting import Granted, look, ungranted
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.owners import Process
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.record import Device
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuadmin.common.metrics import OTHERS, UNKNOWN

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


GPU = Device("GPU-0", 0, None, None, None, {})
OTHER = Device("GPU-1", 1, None, None, None, {})
PART = Device("MIG-1", 1, 7, 0, None, {})
DEVICES = (GPU, OTHER, PART)
HERS = Grant("a1", "minji", 20000, ["GPU-0"], 1000, 2000, "root@nas", "a deadline")
UIDS = {"minji": 20000, "jiho": 20001, "admin": 1000, "root": 0, "(unknown)": None}


@pytest.mark.parametrize(
    ("uuid", "user", "lacks"),
    [
        ("GPU-0", "minji", False),
        ("GPU-1", "minji", True),  # she was granted another one
        ("GPU-0", "jiho", True),  # it is granted to somebody else
        ("GPU-0", "admin", False),
        ("GPU-0", "root", False),
        ("GPU-0", "(unknown)", False),
        ("GPU-0", "gone", False),  # nobody knows who that is
        ("GPU-9", "minji", False),  # nor which GPU this is
    ],
)
def test_who_needs_a_grant_and_has_none(uuid: str, user: str, lacks: bool) -> None:
    granted = Granted([HERS], {}, {"admin"})
    found = ungranted({(uuid, user, "train"): Holding()}, DEVICES, UIDS, granted)
    assert found == ({(uuid, user)} if lacks else set())


def test_a_gpu_is_granted_with_its_parts_and_by_its_device_files() -> None:
    granted = Granted([replace(HERS, gpus=["GPU-1"])], {}, ())
    held = {("MIG-1", "minji", ""): Holding(), ("MIG-1", "jiho", ""): Holding()}
    assert ungranted(held, DEVICES, UIDS, granted) == {("MIG-1", "jiho")}
    granted = Granted([replace(HERS, gpus=["first"])], {"first": ["/dev/nvidia0"], "second": ["/dev/nvidia1"]}, ())
    assert granted.of(GPU, DEVICES) == list(granted.grants)
    assert granted.of(OTHER, DEVICES) == []


@pytest.fixture
def gate(tmp_path: Path) -> str:
    path = tmp_path / "gpu-gate.json"
    path.write_text(json.dumps({"access": "granted", "exempt": ["admin"]}))
    return str(path)


@pytest.mark.root
def test_what_is_in_force(tmp_path: Path, gate: str) -> None:
    for one in (HERS, replace(HERS, id="b2", until=1400)):
        grants.write(one, str(tmp_path))
    found = look(1500, str(tmp_path), gate)
    assert found == Granted([HERS], {}, ["admin"])
    early = look(500, str(tmp_path), gate)  # the clock was put back: nobody's work is ended for that
    assert early is not None
    assert len(early.grants) == 2
    assert look(1500, str(tmp_path), str(tmp_path / "none")) is None, "GPUs are open to everybody"


@pytest.mark.root
@pytest.mark.holds("a grant that cannot be read ends nobody's work")
def test_a_grant_that_cannot_be_read_ends_nothing(tmp_path: Path, gate: str) -> None:
    grants.write(HERS, str(tmp_path))
    (tmp_path / "gpu-grants" / "b2.json").write_text("{")
    with pytest.raises(NodeError, match="b2"):
        look(1500, str(tmp_path), gate)


def test_a_grant_of_a_gpu_is_told_once() -> None:
    part = Grant("b2", "jiho", 20002, ["MIG-1"], 0, 100, "root@nas")
    whole = Grant("c3", "minji", 20001, ["GPU-1"], 0, 100, "root@nas")
    granted = Granted([part, whole], {}, ())
    assert granted.naming(PART, DEVICES) == [part]
    assert [granted.naming(one, DEVICES) for one in DEVICES if one.uuid == "GPU-1"] == [[whole]]


GPU0: Key = ("gpu", 0)
GPU1: Key = ("gpu", 1)
CAP: Key = ("cap", 12)


def process(pid: int, user: str = "alice", started: float = 5.0, container: str = "") -> Process:
    return Process(pid, started, 1001, user, container, "pid:[1]")


def gpu(minor: int = 0, processes: dict[int, int | None] | None = None, **other: Any) -> Device:
    whole = {"gi": None, "ci": None, "busy": True, "processes": processes, **other}
    return Device(uuid=whole.pop("uuid", f"GPU-{minor}"), minor=minor, **whole)


def mig(processes: dict[int, int | None] | None = None) -> Device:
    return gpu(1, processes, uuid="MIG-1", gi=7, ci=0, busy=None)


def found(
    devices: list[Device],
    held: dict[int, set[Key]],
    processes: list[Process],
    *,
    opened: bool = False,
    closed: Collection[int] = (),
) -> dict[tuple[str, str, str], tuple[int, int | None]]:
    result = holdings(
        devices,
        {pid: frozenset(keys) for pid, keys in held.items()},
        {one.pid: one for one in processes},
        caps=lambda device: CAP if device.gi == 7 else None,
        container=lambda one: one.container,
        has_open=lambda pid, _: pid not in closed,
        until=10.0,
        opened=opened,
    )
    return {key: (len(one.pids), one.memory) for key, one in result.items()}


@pytest.mark.parametrize(
    ("devices", "held", "processes", "expected"),
    [
        ([gpu(processes={7: 100})], {}, [process(7)], {("GPU-0", "alice", ""): (1, 100)}),
        # what asks the driver (nvtop, wandb) has all of them open, and holds none but the one that it uses
        ([gpu(processes={})], {7: {GPU0}}, [process(7)], {}),
        ([gpu(processes={}), gpu(1, {7: 5})], {7: {GPU0, GPU1}}, [process(7)], {("GPU-1", "alice", ""): (1, 5)}),
        # two people on one GPU, and two containers of one
        (
            [gpu(processes={7: 100, 8: 50, 9: 1})], {}, [process(7), process(8, "bob"), process(9, container="train")],
            {("GPU-0", "alice", ""): (1, 100), ("GPU-0", "bob", ""): (1, 50), ("GPU-0", "alice", "train"): (1, 1)},
        ),
        # memory that the driver does not say is not zero
        ([gpu(processes={7: 100, 8: None})], {}, [process(7), process(8)], {("GPU-0", "alice", ""): (2, None)}),
        # one that has ended, and one whose number is another's by now
        ([gpu(processes={7: 100})], {}, [], {("GPU-0", UNKNOWN, ""): (1, 100)}),
        ([gpu(processes={7: 100})], {}, [process(7, "bob", started=11.0)], {("GPU-0", UNKNOWN, ""): (1, 100)}),
        # a part of a GPU: by the driver's list, by what is open; the whole has it open as well
        ([gpu(1, {}), mig({7: 5})], {7: {GPU1, CAP}}, [process(7)], {("MIG-1", "alice", ""): (1, 5)}),
        ([gpu(1, {}), mig({7: 5})], {7: {GPU1}}, [process(7)], {("MIG-1", "alice", ""): (1, 5)}),
        ([gpu(1, {}), mig({})], {7: {GPU1, CAP}}, [process(7)], {}),
        # the driver says nothing of the processes of a part
        ([gpu(1, {}), mig(None)], {7: {GPU1, CAP}}, [process(7)], {("MIG-1", "alice", ""): (0, 0)}),
    ],
)  # fmt: skip
def test_who_holds_what(
    devices: list[Device],
    held: dict[int, set[Key]],
    processes: list[Process],
    expected: dict[tuple[str, str, str], tuple[int, int | None]],
) -> None:
    assert found(devices, held, processes) == expected


@pytest.mark.parametrize(
    ("devices", "held", "expected"),
    [
        ([gpu(processes={})], {7: {GPU0}}, {("GPU-0", "alice", ""): (0, 0)}),
        # who has it open and has ended
        ([gpu(processes={})], {8: {GPU0}}, {}),
        ([gpu(1, {}), mig({})], {7: {GPU1, CAP}}, {("MIG-1", "alice", ""): (0, 0)}),
        ([gpu(1, {}), mig({})], {7: {GPU1}}, {("GPU-1", "alice", ""): (0, 0)}),
    ],
)
def test_who_has_what_open(
    devices: list[Device], held: dict[int, set[Key]], expected: dict[tuple[str, str, str], tuple[int, int | None]]
) -> None:
    assert found(devices, held, [process(7)], opened=True) == expected


def test_what_is_open_is_held_without_an_answer_of_the_driver_and_not_by_the_next_owner_of_a_number() -> None:
    devices = [gpu(processes=None, busy=None)]
    assert found(devices, {7: {GPU0}}, [process(7)]) == {("GPU-0", "alice", ""): (0, 0)}
    # The driver lists a killed process for as long as a child of it has its files open.
    assert found([gpu(processes={7: 100})], {}, [process(7, "bob")], closed={7}) == {("GPU-0", UNKNOWN, ""): (1, 100)}


def test_the_first_process_says_since_when() -> None:
    one = holdings(
        [gpu(processes={7: 1, 8: 1})], {}, {7: process(7, started=5), 8: process(8, started=3)},
        caps=lambda _: None, container=lambda _: "", has_open=lambda *_: True, until=10.0,
    )["GPU-0", "alice", ""]  # fmt: skip
    assert one.since == 3
    assert list_pids([gpu(processes={7: 1}), gpu(1, None)], {9: frozenset()}) == {7, 9}


def test_so_many_containers_are_shown_within_an_hour() -> None:
    now = [0.0]
    labels = Labels(lambda: now[0])
    assert [labels.label("alice", f"c{number}") for number in range(40)].count(OTHERS) == 8
    assert labels.label("alice", "c0") == "c0"
    assert labels.label("alice", "") == ""
    assert labels.label("bob", "c39") == "c39"
    now[0] = 3601
    assert labels.label("alice", "c39") == "c39"


DEVICE = {"uuid": "GPU-1", "minor": 0, "gi": None, "ci": None, "busy": True, "processes": [[7, 100], [8, None]]}


def test_a_record(tmp_path: Path) -> None:
    at = tmp_path / "gpus.json"
    at.write_text(json.dumps({"seconds": 5.5, "devices": [DEVICE]}))
    found = record.read(str(at))
    assert found is not None
    assert found == record.Record(5.5, (record.Device("GPU-1", 0, None, None, True, {7: 100, 8: None}),))
    assert record.read(str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    "changes",
    [{"uuid": ""}, {"uuid": 1}, {"uuid": "x" * 97}, {"minor": -1}, {"minor": True}, {"busy": 1}, {"processes": {}},
     {"processes": [[1]]}, {"processes": [["1", 2]]}, {"processes": [[None, 2]]}, {"processes": [[1, 1]] * 5000}],
)  # fmt: skip
def test_what_is_no_record(tmp_path: Path, changes: dict[str, Any]) -> None:
    at = tmp_path / "gpus.json"
    at.write_text(json.dumps({"seconds": 5.5, "devices": [{**DEVICE, **changes}]}))
    with pytest.raises(NodeError, match="not a record"):
        record.read(str(at))


def test_more_than_a_node_has_is_refused() -> None:
    """Each becomes series, and work for root."""
    many = [{**DEVICE, "uuid": f"GPU-{number}"} for number in range(record.MOST_DEVICES + 1)]
    assert len(record.parse({"seconds": 1, "devices": many[1:]}).devices) == record.MOST_DEVICES
    with pytest.raises(ValueError, match="devices"):
        record.parse({"seconds": 1, "devices": many})
    full = [{**DEVICE, "processes": [[pid + 1, 1] for pid in range(record._MOST_OF_ONE)]}]
    assert len(record.parse({"seconds": 1, "devices": full * 4}).devices) == 4
    with pytest.raises(ValueError, match="processes"):
        record.parse({"seconds": 1, "devices": full * 5})
    with pytest.raises(ValueError, match="processes"):
        record.parse({"seconds": 1, "devices": [{**DEVICE, "processes": [[pid, 1] for pid in range(1, 2050)]}]})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"seconds": NaN, "devices": []}',
        b"[" * 100_000,
        b"\xff",
        b'{"seconds": 1e999, "devices": []}',
    ],
)
def test_what_is_no_json(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "gpus.json").write_bytes(data)
    with pytest.raises(NodeError, match="not a record"):
        record.read(str(tmp_path / "gpus.json"))


def test_what_anybody_may_write_is_not_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "gpus.json").write_text(json.dumps({"seconds": 1, "devices": []}))
    with pytest.raises(NodeError, match="by anybody"):
        record.read(str(tmp_path / "gpus.json"))


def test_a_pipe_or_a_link_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NodeError):
        record.read(str(tmp_path / "pipe"))
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        record.read(str(tmp_path / "link"))


@settings(max_examples=300, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(DEVICE),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["seconds", "devices", *DEVICE]), inner, max_size=6)
        ),
        max_leaves=20,
    )
)
def test_anything_else_is_refused_and_ends_nothing(found: object) -> None:
    try:
        parsed = record.parse(found)
    except (ValueError, TypeError, KeyError):
        return
    assert parsed.seconds >= 0

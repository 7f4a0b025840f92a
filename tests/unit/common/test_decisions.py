"""Free, idle, used: decided from samples, as tables. What is not known is never free."""

from dataclasses import replace
from typing import Any

import pytest

from gpuadmin.common.cluster import Device, Granted, Holder, Node, find_earliest_answer, of_samples, totals
from gpuadmin.common.free import GIB, rooms
from gpuadmin.common.idle import idle, jobs, spans
from gpuadmin.common.idle import ungranted as rows_ungranted
from gpuadmin.common.prometheus import of_answer
from gpuadmin.common.queries import idle as query_idle
from gpuadmin.common.queries import seconds_by_holder
from gpuadmin.common.samples import Sample, of_text
from gpuadmin.common.usage import Measured, bought, total, usage
from tests.support.metrics_cluster import granted, ungranted
from tests.support.metrics_cluster import node as lines_of_node

NOW = 1_800_000_000.0


def samples(*names: str, without: tuple[str, ...] = (), **more: Any) -> list[Sample]:
    found = []
    for name in names:
        for line in lines_of_node(name, NOW, **more):
            text = line.rpartition(" ")[0]
            found += [one for one in of_text(text, {}) if one.name not in without]
    return found


def changed(found: list[Sample], name: str, value: float, **labels: str) -> list[Sample]:
    return [
        replace(one, value=value)
        if one.name == name and all(one.labels.get(key) == text for key, text in labels.items())
        else one
        for one in found
    ]


def one_node(found: list[Sample]) -> Node:
    (node,) = of_samples(found, ["gpu1"], NOW)
    return node


def test_a_node_that_is_well() -> None:
    node = one_node(samples("gpu1", held={0: ("minji", "train")}))
    assert (node.state, node.problem, node.expected, node.answering) == ("up", None, 2, 2)
    assert [device.free for device in node.devices] == [False, True]
    assert node.devices[0].holders == (Holder("minji", "train", NOW - 7200, 1, 20 * GIB),)


@pytest.mark.holds("a time that cannot be is not known")
@pytest.mark.parametrize("when", [-1e12, -1.0, NOW + 1000, 1e300])
def test_a_time_that_cannot_be_is_not_known(when: float) -> None:
    """It ended `idle --act` with a traceback, or had somebody mailed and stopped who had only just begun."""
    found = samples("gpu1", held={0: ("minji", "train")})
    name = "gpuadmin_gpu_unused_since_timestamp_seconds"
    labels = next(one.labels for one in found if one.name == "gpuadmin_gpu_allocated")
    found = changed(found, "gpuadmin_gpu_allocated_since_timestamp_seconds", when)
    found = [one for one in found if one.name != name] + [Sample(name, labels, when)]
    (holder,) = one_node(found).devices[0].holders or ()
    assert (holder.since, holder.unused) == (None, None)


def test_since_when_it_is_known_that_nodes_are_up() -> None:
    asked = [Sample("", {"instance": "gpu1", "job": "node", "what": "measured"}, NOW - 14)]
    node = one_node([*samples("gpu1"), *asked])
    assert node.measured == NOW - 14
    assert (
        find_earliest_answer([node, replace(node, measured=NOW - 20), replace(node, state="down", measured=0.0)])
        == NOW - 20
    )
    assert find_earliest_answer([replace(node, measured=None)]) is None


#: What is measured → the state, a word of the problem, and how many GPUs are free.
STATES: dict[str, tuple[Any, str, str, int]] = {
    "down": (lambda found: changed(changed(found, "up", 0), "probe_success", 0), "down", "ping", 0),
    "silent": (lambda found: changed(found, "up", 0), "silent", "fetched", 0),
    "a ping that is lost alone": (lambda found: changed(found, "probe_success", 0), "up", "", 2),
    "never measured": (lambda found: [], "unknown", "provision", 0),
    "no collector": (
        lambda found: [one for one in found if not one.name.startswith("gpuadmin_")], "up", "collector", 0,
    ),
    "nobody knows who holds": (
        lambda found: changed(found, "gpuadmin_collector_success", 0, source="processes"), "up", "who holds", 0,
    ),
    "who holds is old": (
        lambda found: changed(
            found, "gpuadmin_collector_sample_timestamp_seconds", NOW - 3600, source="processes"
        ), "up", "who holds", 0,
    ),
    "the driver is old": (
        lambda found: changed(found, "gpuadmin_collector_sample_timestamp_seconds", NOW - 3600, source="nvml"),
        "up", "answered", 0,
    ),
    "a broken driver": (
        lambda found: changed(
            changed(found, "gpuadmin_gpu_driver_state", 1, state="broken"), "gpuadmin_gpu_driver_state", 0, state="ok"
        ), "up", "broken", 0,
    ),
    "who holds is of the future": (
        lambda found: changed(
            found, "gpuadmin_collector_sample_timestamp_seconds", NOW + 1e9, source="processes"
        ), "up", "who holds", 0,
    ),
    "one is lost": (lambda found: changed(found, "gpuadmin_gpus_answering", 1), "up", "1 of 2", 2),
}  # fmt: skip


@pytest.mark.holds(
    "a GPU of which nobody knows who holds it is not free", "what the driver said long ago says nothing of now"
)
@pytest.mark.parametrize("case", STATES)
def test_what_is_not_known_is_not_free(case: str) -> None:
    change, state, word, free = STATES[case]
    node = one_node(change(samples("gpu1")))
    assert (node.state, len(node.free)) == (state, free)
    assert word in (node.problem or "")
    assert (node.problem is None) == (word == "")


def test_a_divided_gpu_is_its_devices() -> None:
    found = [
        replace(one, labels={**one.labels, "mig": "true"}) if one.name == "gpuadmin_gpu_info" else one
        for one in samples("gpu1", gpus=1)
    ]
    where = {"instance": "gpu1"}
    for index in ("0", "1"):
        labels = {**where, "uuid": f"MIG-{index}", "gpu": "GPU-gpu1-0", "index": index, "name": "1g.10gb"}
        found.append(Sample("gpuadmin_mig_info", labels, 1))
    found.append(Sample("gpuadmin_gpu_allocated", {**where, "uuid": "MIG-1", "user": "minji", "container": ""}, 1))
    found.append(Sample("gpuadmin_mig_utilization_ratio", {**where, "uuid": "MIG-1"}, 0.4))
    node = one_node(found)
    assert [device.utilization for device in node.devices][1:] == [None, 0.4]
    assert [(device.index, device.usable, device.free) for device in node.devices] == [
        ("0", False, False), ("0.0", True, True), ("0.1", True, False),
    ]  # fmt: skip


@pytest.mark.holds("a GPU that does not answer keeps its row, and is nobody's")
def test_a_lost_gpu_keeps_its_row() -> None:
    lost = Sample("gpuadmin_gpu_silent", {"instance": "gpu1", "index": "0", "problem": "GPU_IS_LOST"}, 1)
    found = changed(samples("gpu1"), "gpuadmin_gpus_answering", 1)
    node = one_node([lost, *(one for one in found if one.labels.get("uuid") != "GPU-gpu1-0")])
    assert [(one.index, one.lost, one.free, one.of("")) for one in node.devices] == [
        ("0", True, False, False), ("1", False, True, False),
    ]  # fmt: skip
    assert node.problem == "1 of 2 GPUs answer"
    assert totals([node])["devices"] == 1


def of_lines(*lines: str) -> list[Sample]:
    return [sample for line in lines for sample in of_text(line.rpartition(" ")[0], {})]


@pytest.mark.holds("what somebody was granted is not free")
def test_granted_held_and_used_are_three_things() -> None:
    """The first is held and granted, the second granted and not held, the third held by who has no grant."""
    found = samples("gpu1", gpus=4, held={0: ("minji", ""), 2: ("jiho", "")})
    for index, user in ((0, "minji"), (1, "minji"), (3, "gone")):
        until = NOW + 3600 if user == "minji" else NOW - 60
        found += of_lines([*granted("gpu1", index, user, NOW, until)][-1])
    found += of_lines(ungranted("gpu1", 2, "jiho", NOW, NOW - 600))
    node = one_node(found)
    assert node.devices[0].granted == (Granted("minji", NOW + 3600, "root@nas", "a deadline"),)
    assert [device.free for device in node.devices] == [False, False, False, True]
    assert [[one.user for one in device.waiting] for device in node.devices] == [[], ["minji"], [], []]
    assert totals([node]) | {"nodes": 0, "up": 0} == {
        "nodes": 0, "up": 0, "devices": 4, "free": 1, "held": 2, "granted": 1, "unknown": 0,
    }  # fmt: skip
    assert [len(node.held_by(name).devices) for name in ("minji", "jiho", "gone")] == [2, 1, 0]
    (row,) = rows_ungranted([node])
    assert (row.user, row.index, row.ungranted, row.wrong_since, row.policy) == (
        "jiho", "2", NOW - 600, NOW - 600, "tell",
    )  # fmt: skip
    held = {"instance": "gpu1", "user": "jiho", "uuid": "GPU-gpu1-2"}
    assert idle([node], {2: [Sample("", held, 9000)]}, ()) == [], "it is in one list alone"


def test_who_only_has_it_open_without_a_grant_holds_it() -> None:
    """The driver lists nothing of theirs, and they can compute on it whenever they want."""
    found = [*samples("gpu1", gpus=2), *of_lines(ungranted("gpu1", 1, "jiho", NOW, NOW - 600))]
    node = one_node(found)
    assert [device.free for device in node.devices] == [True, False]
    ((holder,),) = [device.holders for device in node.devices if device.holders]
    assert (holder.user, holder.processes, holder.ungranted) == ("jiho", None, NOW - 600)
    assert [row.user for row in rows_ungranted([node])] == ["jiho"]


@pytest.mark.holds("what an admin writes as a reason is not a job of Slurm's")
def test_what_an_admin_writes_as_a_reason_is_no_job() -> None:
    node = one_node(samples("gpu1", gpus=1))
    rows = []
    for who in ("Slurm", "root@nas"):
        one = Granted("minji", NOW + 3600, who, "job 7", "7", NOW - 3 * 3600)
        device = replace(node.devices[0], granted=(one,))
        rows.append([row.job for row in jobs([replace(node, devices=(device,))], 2, NOW, ())])
    assert rows == [["7"], []]


def test_a_part_of_a_gpu_is_granted_with_it() -> None:
    found = samples("gpu1", gpus=1)
    labels = {"instance": "gpu1", "uuid": "MIG-0", "gpu": "GPU-gpu1-0", "index": "0", "name": "1g.10gb"}
    found += [Sample("gpuadmin_mig_info", labels, 1), *of_lines(*granted("gpu1", 0, "minji", NOW, NOW + 60))[-1:]]
    assert [[one.user for one in device.granted] for device in one_node(found).devices] == [["minji"], ["minji"]]


def test_a_part_of_a_gpu_may_be_granted_alone() -> None:
    found = samples("gpu1", gpus=1)
    for number in ("0", "1"):
        labels = {"instance": "gpu1", "uuid": f"MIG-{number}", "gpu": "GPU-gpu1-0", "index": number, "name": "1g.10gb"}
        found.append(Sample("gpuadmin_mig_info", labels, 1))
    labels = {"instance": "gpu1", "uuid": "MIG-1", "user": "minji", "who": "root@nas", "reason": ""}
    found.append(Sample("gpuadmin_gpu_granted_until_timestamp_seconds", labels, NOW + 60))
    assert [[one.user for one in device.granted] for device in one_node(found).devices] == [[], [], ["minji"]]


def device(node: str, index: int, *, memory: float | None = 80 * GIB, used: float = 0, held: bool = False) -> Device:
    holders = (Holder("minji", "", None, 1, None),) if held else ()
    return Device(node, f"{node}-{index}", str(index), "H100", True, 0.0, memory, used, None, None, holders)


def nodes(*of: Device) -> list[Node]:
    names = dict.fromkeys(one.node for one in of)
    return [
        Node(name, "up", None, None, None, None, None, None, tuple(one for one in of if one.node == name))
        for name in names
    ]


def test_where_somebody_can_run() -> None:
    found = nodes(
        *(device("a", index) for index in range(4)), device("b", 0), device("b", 1, held=True),
        device("c", 0, used=70 * GIB), device("c", 1, memory=None),
    )  # fmt: skip
    assert [room.node.name for room in rooms(found, 1, 0)] == ["b", "c", "a"], "what is filled best comes first"
    assert [(room.node.name, len(room.devices)) for room in rooms(found, 1, 40)] == [("b", 1), ("a", 4)]
    assert [room.node.name for room in rooms(found, 2, 40)] == ["a"]
    assert rooms(found, 5, 0) == []


def test_who_is_idle_and_for_how_long() -> None:
    def held(uuid: str, user: str) -> Sample:
        return Sample("", {"instance": "a", "uuid": uuid, "user": user}, 9000)

    found = nodes(device("a", 0, held=True), device("a", 1, held=True), device("a", 2))
    asked = {
        2: [held("a-0", "minji"), held("a-1", "minji"), held("a-2", "junho")],  # who has let go is not idle
        6: [held("a-0", "minji")],
        12: [],
    }
    rows = idle(found, asked, ())
    assert [(row.uuid, row.user, row.hours, row.policy) for row in rows] == [
        ("a-0", "minji", 6, "tell"), ("a-1", "minji", 2, "tell"),
    ]  # fmt: skip
    assert {row.policy for row in idle(found, asked, ["minji"])} == {"exempt"}
    assert spans(2) == (2, 6, 12, 24, 72, 168)
    assert spans(24) == (24, 72, 168)


def hours(node: str, user: str, count: float, uuid: str = "0") -> Sample:
    return Sample("", {"instance": node, "user": user, "uuid": uuid}, count * 3600)


USED = Measured(
    held=[hours("a", "minji", 10), hours("a", "junho", 4, "1"), hours("b", "minji", 6), hours("gone", "minji", 99)],
    measured=[hours("a", "minji", 10), hours("a", "junho", 4, "1")],
    active=[hours("a", "minji", 5), hours("a", "junho", 4, "1")],
    available=[Sample("", {"instance": "a"}, 40 * 3600), Sample("", {"instance": "b"}, 40 * 3600)],
)
GROUPS = {"a": ["rack1"], "b": ["rack1", "vision"]}


def test_usage() -> None:
    by_user = {row.name: row for row in usage(USED, "user", GROUPS)}
    assert (by_user["minji"].held, by_user["minji"].active, by_user["minji"].efficiency) == (16, 5, 0.5)
    assert by_user["minji"].share is None
    by_node = {row.name: row for row in usage(USED, "node", GROUPS)}
    assert set(by_node) == {"a", "b"}
    assert (by_node["a"].held, by_node["a"].share, by_node["a"].idle) == (14, 14 / 40, 5)
    assert by_node["b"].efficiency is None, "it is not known whether anything ran"
    by_group = {row.name: row for row in usage(USED, "group", GROUPS)}
    assert (by_group["rack1"].held, by_group["rack1"].available, by_group["vision"].held) == (20, 80, 6)
    assert (total(USED, GROUPS).held, total(USED, GROUPS).share) == (20, 0.25)


def test_how_much_of_what_was_bought_was_used() -> None:
    """Ten of minji's, four of junho's, six of which nobody knows; a node that is not the site's is left out."""
    found = bought(USED, GROUPS, 30)
    assert (found.available, found.held, found.used, found.unknown) == (80, 20, 9, 6)
    assert found.words() == "Of 80 GPU-hours available, 25% were held and 11% used; for 8% nobody knows."
    assert bought(Measured([], [], [], []), GROUPS, 30).words() is None


def test_a_gpu_that_is_shared_or_divided_was_bought_once() -> None:
    shared = [hours("a", "minji", 20, "g"), hours("a", "junho", 20, "g")]
    slices = [hours("a", user, count, uuid) for user, count, uuid in (("minji", 9, "m1"), ("junho", 5, "m2"))]
    mig = [Sample("", {"instance": "a", "uuid": uuid, "gpu": "h"}, 1) for uuid in ("m1", "m2")]
    found = Measured([*shared, *slices], shared, shared, [Sample("", {"instance": "a"}, 48 * 3600)], mig)
    whole = bought(found, GROUPS, 1)
    assert (whole.available, whole.held, whole.used, whole.unknown) == (48, 24 + 9, 24, 9)


def test_queries_are_fixed() -> None:
    with pytest.raises(ValueError, match="or"):
        seconds_by_holder("held[1d]) or up", 1)
    assert "[3h]" in query_idle(3)


ANSWERS: dict[str, Any] = {
    "an error": {"status": "error", "error": "too many samples"},
    "another type": {"status": "success", "data": {"resultType": "matrix", "result": []}},
    "a list": [],
    "no value": {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}}]}},
    "no number": {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "x"]}]}},
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_that_is_none(case: str) -> None:
    with pytest.raises(ValueError, match=r"answer of another|could not convert"):
        of_answer(ANSWERS[case])


def test_numbers_that_are_none_are_left_out() -> None:
    result = [{"metric": {"__name__": "up", "a": "b"}, "value": [1, text]} for text in ("1", "NaN", "+Inf")]
    document = {"status": "success", "data": {"resultType": "vector", "result": result}}
    assert of_answer(document) == [Sample("up", {"a": "b"}, 1.0)]
    assert list(of_text('# HELP x\nx{a="q\\"\\\\n"} 2\ny NaN\nbroken{\nz 3 1700', {"i": "n"})) == [
        Sample("x", {"a": 'q"\\n', "i": "n"}, 2.0), Sample("z", {"i": "n"}, 3.0),
    ]  # fmt: skip

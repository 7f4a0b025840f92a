"""The cluster as it is now: nodes, their GPUs and MIG devices, and who holds them. From samples, purely.

What is not known stays None, and is never taken for free: a node without measurements, a GPU whose holder is unknown.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from .metrics import UNKNOWN
from .samples import Sample, of_text

_OLD = 300  # seconds: what the collector wrote before that says nothing of now


@dataclass(frozen=True)
class Holder:
    """Who holds a device. `processes`: as the driver lists them; None: it does not say, or they have it open without a
    grant, and it lists none.
    """

    user: str
    container: str
    since: float | None
    processes: int | None
    memory: float | None  # bytes
    unused: float | None = None  # since when they have held it without using it once; None: they use it, or unknown
    ungranted: float | None = None  # since when without a grant; None: they have one, or need none


@dataclass(frozen=True)
class Granted:
    """Who was granted a device until when, by whom and why."""

    user: str
    until: float
    who: str
    reason: str
    job: str = ""  # of Slurm's queue, where it is one's that is not used
    unused: float | None = None  # since when that is so


@dataclass(frozen=True)
class Device:
    """A GPU, or a MIG device of one. `usable`: somebody can be given it as a whole; a divided GPU cannot. `lost`: the
    driver counts it and it does not answer, so its number alone is known."""

    node: str
    uuid: str
    index: str
    name: str
    usable: bool
    utilization: float | None  # ratio
    memory: float | None  # bytes
    memory_used: float | None
    power: float | None  # watts
    temperature: float | None  # °C
    holders: tuple[Holder, ...] | None  # None: not known
    granted: tuple[Granted, ...] = ()  # none where GPUs are open to everybody
    lost: bool = False

    @property
    def free(self) -> bool:
        """Whether it is known that nobody holds it, and nobody was granted it."""
        # guard: what somebody was granted is not free -> self.usable and self.holders == ()
        return self.usable and self.holders == () and not self.granted

    def of(self, user: str) -> bool:
        """Whether somebody holds it, or was granted it."""
        return user in {*(one.user for one in self.holders or ()), *(one.user for one in self.granted)}

    @property
    def waiting(self) -> tuple[Granted, ...]:
        """Grants of those who do not hold it now."""
        held = {one.user for one in self.holders or ()}
        return tuple(one for one in self.granted if one.user not in held)

    @property
    def memory_free(self) -> float | None:
        """Bytes; None if it is not known."""
        return None if self.memory is None or self.memory_used is None else self.memory - self.memory_used


@dataclass(frozen=True)
class Node:
    """A node. `state`: up, down (it does not answer a ping), silent (it does, but nothing is measured) or unknown."""

    name: str
    state: str
    problem: str | None
    expected: int | None
    answering: int | None
    load: float | None
    memory: float | None  # bytes
    memory_available: float | None
    devices: tuple[Device, ...]
    measured: float | None = None  # when it was asked last, in seconds since 1970; None: just now, or nobody knows

    @property
    def free(self) -> tuple[Device, ...]:
        """The devices that nobody holds or was granted."""
        return tuple(device for device in self.devices if device.free)

    def held_by(self, user: str) -> Node:
        """The same node with those devices alone that somebody holds, or was granted."""
        return replace(self, devices=tuple(one for one in self.devices if one.of(user)))


class _Values:
    """The samples of one node, by name and by the value of a label."""

    def __init__(self) -> None:
        self.of: dict[str, list[Sample]] = defaultdict(list)

    def one(self, name: str, **labels: str) -> float | None:
        for sample in self.of.get(name, ()):
            if all(sample.labels.get(key) == value for key, value in labels.items()):
                return sample.value
        return None

    @functools.cached_property
    def indexed(self) -> Mapping[tuple[str, str], float]:
        """By name and uuid, for what there is once for a device."""
        return {(name, one.labels.get("uuid", "")): one.value for name, found in self.of.items() for one in found}


def of_samples(samples: Iterable[Sample], names: Sequence[str], now: float) -> tuple[Node, ...]:
    """Given samples with the label `instance`, the names of the site's nodes, and the time (seconds since 1970), return
    the nodes in that order. What is measured of others is left out.
    """
    found = {name: _Values() for name in names}
    for sample in samples:
        node = found.get(sample.labels.get("instance", ""))
        if node is not None:
            node.of[sample.name].append(sample)
    return tuple(_node(name, values, now) for name, values in found.items())


def totals(nodes: Iterable[Node]) -> dict[str, int]:
    """How many nodes are up, how many devices there are that people can be given, and what is known of them."""
    nodes = list(nodes)
    devices = [device for node in nodes for device in node.devices if device.usable]
    return {
        "nodes": len(nodes),
        "up": sum(1 for node in nodes if node.state == "up"),
        "devices": len(devices),
        "free": sum(1 for device in devices if device.free),
        "held": sum(1 for device in devices if device.holders),
        "granted": sum(1 for device in devices if device.holders == () and device.granted),  # and not held
        "unknown": sum(1 for device in devices if device.holders is None),
    }


def find_earliest_answer(nodes: Iterable[Node]) -> float | None:
    """Of the nodes that are up, the earliest time of a last answer: since then one of them may be down."""
    return min((node.measured for node in nodes if node.state == "up" and node.measured is not None), default=None)


def of_texts(
    texts: Mapping[str, str], unknown: Mapping[str, str], names: Sequence[str], now: float
) -> tuple[Node, ...]:
    """The same from what the nodes themselves have written, by node; `unknown`: nodes that did not say, and why."""
    samples = [Sample("up", {"instance": name, "job": "node"}, 1) for name in texts]
    for name, text in texts.items():
        samples += of_text(text, {"instance": name})
    nodes = of_samples(samples, names, now)
    return tuple(
        replace(node, state="silent", problem=unknown[node.name]) if node.name in unknown else node for node in nodes
    )


def _node(name: str, values: _Values, now: float) -> Node:
    state, problem = _state(values)
    expected, answering = (values.one(f"gpuadmin_gpus_{what}") for what in ("expected", "answering"))
    if state == "up" and problem is None:
        problem = _gpu_problem(values, expected, answering, now)
    return Node(
        name, state, problem, _whole(expected), _whole(answering), values.one("node_load1"),
        values.one("node_memory_MemTotal_bytes"), values.one("node_memory_MemAvailable_bytes"),
        _devices(name, values, now) if state == "up" else (),
        values.one("", what="measured"),
    )  # fmt: skip


def _state(values: _Values) -> tuple[str, str | None]:
    ping, up = values.one("probe_success", job="ping"), values.one("up", job="node")
    if up == 1:
        return "up", None
    if ping == 0:
        return "down", "does not answer a ping"
    if ping == 1 or up == 0:
        return "silent", "its measurements cannot be fetched"
    return "unknown", "nothing is measured of it: gpuadmin provision"


def _gpu_problem(values: _Values, expected: float | None, answering: float | None, now: float) -> str | None:
    if not values.of.get("gpuadmin_collector_success"):
        return "nothing is known of its GPUs: the collector has written nothing"
    for state in ("missing", "broken"):
        if values.one("gpuadmin_gpu_driver_state", state=state) == 1 and expected != 0:
            return f"the GPU driver is {state}"
    if not _fresh(values, "nvml", now) and values.one("gpuadmin_gpu_driver_state", state="none") != 1:
        return "the GPU driver has not answered for a while"
    if expected is not None and answering is not None and answering < expected:
        return f"{int(answering)} of {int(expected)} GPUs answer"
    if not _fresh(values, "processes", now):
        return "who holds its GPUs is not known"
    return None


def _fresh(values: _Values, source: str, now: float) -> bool:
    """Whether a source has answered, and lately."""
    then = values.one("gpuadmin_collector_sample_timestamp_seconds", source=source)
    return (
        values.one("gpuadmin_collector_success", source=source) == 1
        and then is not None
        and abs(now - then) < _OLD  # guard: what the driver said long ago says nothing of now
    )


def _devices(node: str, values: _Values, now: float) -> tuple[Device, ...]:
    if not _fresh(values, "nvml", now) or values.one("gpuadmin_gpu_driver_state", state="ok") == 0:
        return ()
    held = (
        _holders(values, now)
        if _fresh(values, "processes", now)
        else None  # guard: a GPU of which nobody knows who holds it is not free
    )
    devices: list[tuple[tuple[int, int], Device]] = []
    indices = {
        one.labels.get("uuid", ""): one.labels.get("index", "") for one in values.of.get("gpuadmin_gpu_info", ())
    }
    for one in values.of.get("gpuadmin_gpu_info", ()):
        uuid, divided = one.labels.get("uuid", ""), one.labels.get("mig") == "true"
        device = _device(node, uuid, one.labels.get("index", "?"), one.labels.get("name", ""), values, "gpu", held)
        device = replace(device, usable=not divided, granted=_granted(values, uuid, now))
        devices.append((_order(device.index), device))
    for one in values.of.get("gpuadmin_mig_info", ()):
        gpu, uuid = one.labels.get("gpu", ""), one.labels.get("uuid", "")
        index = f"{indices.get(gpu, '?')}.{one.labels.get('index', '?')}"
        device = _device(node, uuid, index, one.labels.get("name", ""), values, "mig", held)
        device = replace(device, granted=(*_granted(values, gpu, now), *_granted(values, uuid, now)))
        devices.append((_order(index), device))
    for one in values.of.get("gpuadmin_gpu_silent", ()):
        index = one.labels.get("index", "?")
        # guard: a GPU that does not answer keeps its row, and is nobody's
        devices.append((_order(index), Device(node, "", index, "", False, None, None, None, None, None, (), lost=True)))
    return tuple(device for _, device in sorted(devices, key=lambda pair: pair[0]))


def _device(
    node: str, uuid: str, index: str, name: str, values: _Values, kind: str, held: Mapping[str, Sequence[Holder]] | None
) -> Device:
    def value(what: str) -> float | None:
        return values.indexed.get((f"gpuadmin_{kind}_{what}", uuid))

    return Device(
        node, uuid, index, name, True, value("utilization_ratio"), value("memory_size_bytes"),
        value("memory_used_bytes"), value("power_watts"), value("temperature_celsius"),
        None if held is None else tuple(held.get(uuid, ())),
    )  # fmt: skip


def _granted(values: _Values, uuid: str, now: float) -> tuple[Granted, ...]:
    """The grants of a GPU that have not ended; what Prometheus answers may be older than their end."""
    unused = {
        (one.labels.get("user", ""), f"job {one.labels.get('slurm_job', '')}"): (
            one.labels.get("slurm_job", ""),
            one.value,
        )
        for one in values.of.get("gpuadmin_gpu_job_unused_since_timestamp_seconds", ())
        if one.labels.get("uuid", "") == uuid and _moment(one.value, now) is not None
    }
    found = [
        Granted(
            one.labels.get("user", UNKNOWN),
            one.value,
            one.labels.get("who", ""),
            one.labels.get("reason", ""),
            *unused.get((one.labels.get("user", ""), one.labels.get("reason", "")), ()),
        )
        for one in values.of.get("gpuadmin_gpu_granted_until_timestamp_seconds", ())
        if one.labels.get("uuid", "") == uuid and one.value > now
    ]
    return tuple(sorted(found, key=lambda one: (one.user, one.until)))


def _holders(values: _Values, now: float) -> dict[str, list[Holder]]:
    def keyed(name: str) -> dict[tuple[str, str, str], float]:
        return {_key(one): one.value for one in values.of.get(name, ())}

    since = keyed("gpuadmin_gpu_allocated_since_timestamp_seconds")
    processes, memory = keyed("gpuadmin_gpu_processes"), keyed("gpuadmin_gpu_process_memory_bytes")
    unused, ungranted = (
        {
            (one.labels.get("uuid", ""), one.labels.get("user", "")): one.value
            for one in values.of.get(f"gpuadmin_gpu_{why}_since_timestamp_seconds", ())
        }
        for why in ("unused", "ungranted")
    )
    found: dict[str, list[Holder]] = defaultdict(list)
    for one in values.of.get("gpuadmin_gpu_allocated", ()):
        key = _key(one)
        if one.value:
            holder = Holder(
                key[1], key[2], _moment(since.get(key), now), _whole(processes.get(key)), memory.get(key),
                _moment(unused.get(key[:2]), now), _moment(ungranted.get(key[:2]), now),
            )  # fmt: skip
            found[key[0]].append(holder)
    for (uuid, user), when in ungranted.items():
        # the driver lists nothing of theirs, and what they have open can use the GPU at any time
        if all(one.user != user for one in found[uuid]):
            found[uuid].append(Holder(user, "", None, None, None, None, _moment(when, now)))
    return {uuid: sorted(holders, key=lambda one: (one.user, one.container)) for uuid, holders in found.items()}


def _moment(when: float | None, now: float) -> float | None:
    """A time that a node reports; None for an impossible one, such as in the future: nothing is decided from it."""
    return (
        when
        if when is not None and 0 <= when <= now + _OLD
        # guard: a time that cannot be is not known
        else None
    )


def _key(sample: Sample) -> tuple[str, str, str]:
    labels = sample.labels
    return labels.get("uuid", ""), labels.get("user", UNKNOWN), labels.get("container", "")


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _order(index: str) -> tuple[int, int]:
    first, _, second = index.partition(".")
    return (int(first) if first.isdecimal() else 1 << 30, int(second) + 1 if second.isdecimal() else 0)

"""What the cluster is like at a moment, as all pages need it: what Prometheus says, read by the verbs' own rules."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..common.cluster import Node, of_samples
from ..common.idle import Idle, idle
from ..common.queries import idle as query_idle
from ..common.queries import now as query_now
from ..common.samples import Sample, by
from . import queries
from .files import DashboardError
from .prometheus import Asked
from .queue import Queue, queue
from .viewer import Settings

_SPANS = (6, 12, 24)  # hours; more would be a question over more samples than a page is worth


@dataclass(frozen=True)
class Disk:
    """A file system. `used`: ratio."""

    path: str
    size: float
    free: float

    @property
    def used(self) -> float:
        """How full it is, from 0 to 1."""
        return 1 - self.free / self.size


@dataclass(frozen=True)
class Person:
    """What one person uses on one node, besides GPUs; None: unknown."""

    cores: float | None
    memory: float | None  # bytes
    tasks: float | None


@dataclass(frozen=True)
class Snapshot:
    """What is known at a moment. By node: file systems, alerts, people, how busy processors are, when it was last
    seen (None: not in 30 days) and when it was started. `worked`: node and uuid → ratio of the last 15 minutes.
    `disk`: bytes by person. `queue`: None where the site has none. `missing`: questions that were not answered.
    """

    when: float
    nodes: tuple[Node, ...]
    disks: Mapping[str, Sequence[Disk]]
    alerts: Mapping[str, Sequence[tuple[str, str]]]
    people: Mapping[str, Mapping[str, Person]]
    cpu: Mapping[str, float]
    seen: Mapping[str, float]
    booted: Mapping[str, float]
    throttled: Mapping[tuple[str, str], Sequence[str]]
    limits: Mapping[tuple[str, str], float]
    worked: Mapping[tuple[str, str], float]
    disk: Mapping[str, float]
    idle: Sequence[Idle]
    missing: Sequence[str]
    queue: Queue | None = None

    def node(self, name: str) -> Node | None:
        """The node with that name; None if the site has none."""
        return next((one for one in self.nodes if one.name == name), None)

    def users(self) -> set[str]:
        """Everybody with measurements."""
        devices = [device for node in self.nodes for device in node.devices]
        held = {one.user for device in devices for one in (device.holders or ())}
        held |= {one.user for device in devices for one in device.granted}
        return held | {user for people in self.people.values() for user in people} | set(self.disk)


async def take_snapshot(asked: Asked, settings: Settings) -> Snapshot:
    """Ask for everything at once. Raises DashboardError if not even the nodes are known."""
    spans = (settings.idle_hours, *(span for span in _SPANS if span > settings.idle_hours))
    wanted = {
        "details": (queries.DETAILS, 10.0), "disks": (queries.DISKS, 30.0), "alerts": (queries.ALERTS, 10.0),
        "cpu": (queries.CPU, 10.0), "people": (queries.PEOPLES_CPU, 10.0), "worked": (queries.UTILIZATION, 60.0),
        "queue": (queries.QUEUE, 10.0),
        **{f"idle {span}": (query_idle(span), 120.0) for span in spans},
    }  # fmt: skip
    first = asyncio.ensure_future(asked.now(query_now()))
    answers = await asyncio.gather(
        *(asked.now(query, seconds) for query, seconds in wanted.values()), return_exceptions=True
    )
    when = time.time()
    nodes = of_samples(await first, settings.nodes, when)
    found: dict[str, list[Sample]] = {}
    missing = []
    for name, answer in zip(wanted, answers):
        if isinstance(answer, DashboardError):
            missing.append(name.partition(" ")[0])
        elif isinstance(answer, BaseException):
            raise answer
        found[name] = [] if isinstance(answer, BaseException) else answer
    away = {kind: [one.name for one in nodes if one.state == kind] for kind in ("down", "silent")}
    seen: dict[str, float] = {}
    for kind, names in away.items():
        if names:
            try:
                answer = await asked.now(queries.last_seen(names)[kind], 60.0)
            except DashboardError:
                missing.append("seen")
            else:
                seen.update({name: value for (name,), value in by(answer, "instance").items()})
    rows = idle(nodes, {span: found[f"idle {span}"] for span in spans}, settings.idle_exempt)
    return _make_look(when, nodes, found, seen, rows, missing)


def _make_look(
    when: float,
    nodes: tuple[Node, ...],
    found: Mapping[str, Sequence[Sample]],
    seen: Mapping[str, float],
    rows: Sequence[Idle],
    missing: Iterable[str],
) -> Snapshot:
    details: dict[str, list[Sample]] = defaultdict(list)
    for one in found["details"]:
        details[one.name].append(one)
    throttled: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in details["gpuadmin_gpu_throttled"]:
        if one.value:
            throttled[one.labels.get("instance", ""), one.labels.get("uuid", "")].append(one.labels.get("reason", ""))
    disk: dict[str, float] = defaultdict(float)
    for one in details["gpuadmin_user_disk_bytes"]:
        disk[one.labels.get("user", "")] += one.value
    return Snapshot(
        when, nodes, _list_disks(found["disks"]), _list_alerts(found["alerts"]),
        _measure_people(details, found["people"]),
        _group_by_node(found["cpu"]), seen, _group_by_node(details["node_boot_time_seconds"]), throttled,
        _by_device(details["gpuadmin_gpu_power_limit_watts"]), _by_device(found["worked"]), disk, rows,
        sorted(set(missing)), queue(found["queue"], when),
    )  # fmt: skip


def _group_by_node(samples: Iterable[Sample]) -> dict[str, float]:
    return {name: value for (name,), value in by(samples, "instance").items()}


def _by_device(samples: Iterable[Sample]) -> dict[tuple[str, str], float]:
    return {(node, uuid): value for (node, uuid), value in by(samples, "instance", "uuid").items()}


def _list_alerts(samples: Iterable[Sample]) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for node, name, severity in sorted(by(samples, "instance", "alertname", "severity")):
        found[node].append((name, severity))
    return found


def _measure_people(details: Mapping[str, Sequence[Sample]], cores: Sequence[Sample]) -> dict[str, dict[str, Person]]:
    parts = [
        by(samples, "instance", "user")
        for samples in (cores, details["gpuadmin_user_memory_bytes"], details["gpuadmin_user_tasks"])
    ]
    found: dict[str, dict[str, Person]] = defaultdict(dict)
    for key in sorted({key for part in parts for key in part}):
        found[key[0]][key[1]] = Person(*(part.get(key) for part in parts))
    return found


def _list_disks(samples: Iterable[Sample]) -> dict[str, list[Disk]]:
    """The file systems of each node, the fullest first. A device that is mounted several times is there once."""
    values: dict[tuple[str, str], dict[str, tuple[str, float]]] = defaultdict(dict)
    for one in samples:
        labels = one.labels
        key = labels.get("instance", ""), labels.get("device", labels.get("mountpoint", ""))
        path, before = labels.get("mountpoint", "?"), values[key].get(one.name)
        if before is None or (len(path), path) < (len(before[0]), before[0]):
            values[key][one.name] = path, one.value
    found: dict[str, list[Disk]] = defaultdict(list)
    for (node, _device), pair in values.items():
        size, free = pair.get("node_filesystem_size_bytes"), pair.get("node_filesystem_avail_bytes")
        if size is not None and free is not None and size[1] > 0:
            found[node].append(Disk(size[0], size[1], max(free[1], 0.0)))
    for disks in found.values():
        disks.sort(key=lambda one: (-one.used, one.path))
    return found

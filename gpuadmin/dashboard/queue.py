"""The queue for GPUs as its controller measures it each minute: who has some, who waits, and closed nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..common.samples import Sample, by
from ..common.turns import ENDS
from ..common.waiting import OTHER, WHY, count_tasks

OLD = 300  # seconds: what was measured before that says nothing of now


@dataclass(frozen=True)
class Job:
    """A job with GPUs. `place` 0: it has them, `until` a moment; `made`: of an admin's exception who made it and why.
    Else `why` it waits, `since` when, and before when Slurm does not expect it to begin (`expected`)."""

    id: str
    user: str
    gpus: str
    nodes: str = ""
    until: float | None = None
    made: tuple[str, str] | None = None
    place: int = 0
    why: str = ""
    since: float | None = None
    expected: float | None = None
    notebook: bool = False


@dataclass(frozen=True)
class Queue:
    """`known`: whether its controller answered within the last minutes. `closed`: nodes that take no jobs, and why.
    `ended`: of the last day, the newest first; each with why (`why`) and when (`until`)."""

    known: bool
    has: Sequence[Job]
    waits: Sequence[Job]
    closed: Sequence[tuple[str, str]]
    ended: Sequence[Job] = ()

    def of(self, user: str) -> list[Job]:
        """What somebody has, and waits for."""
        return [one for one in (*self.has, *self.waits) if one.user == user]


def queue(samples: Iterable[Sample], now: float) -> Queue | None:
    """Given the answer to queries.QUEUE, return the queue; None where a site has none."""
    found: dict[str, list[Sample]] = {}
    for one in samples:
        found.setdefault(one.name, []).append(one)
    up = found.get("gpuadmin_queue_up")
    if not up:
        return None
    when = max((one.value for one in found.get("gpuadmin_collector_sample_timestamp_seconds", ())), default=0.0)
    # guard: a queue that does not answer is not shown as empty
    if now - when > OLD or all(one.value == 0 for one in up):
        return Queue(False, (), (), ())
    since = by(found.get("gpuadmin_queue_waiting_since_timestamp_seconds", ()), "id")
    expected = by(found.get("gpuadmin_queue_expected_start_timestamp_seconds", ()), "id")
    made = {
        one.labels["id"]: (one.labels.get("who", ""), one.labels.get("reason", ""))
        for one in found.get("gpuadmin_queue_exception", ())
    }
    has = [
        Job(
            one.labels["id"], one.labels["user"], one.labels["gpus"], one.labels.get("nodes", ""), one.value,
            made.get(one.labels["id"]), notebook=one.labels.get("notebook") == "yes",
        )
        for one in found.get("gpuadmin_queue_until_timestamp_seconds", ())
    ]  # fmt: skip
    waits = [
        Job(
            one.labels["id"], one.labels["user"], _describe_gpus(one.labels), place=int(one.value),
            why=one.labels["why"] if one.labels["why"] in WHY else OTHER, since=since.get((one.labels["id"],)),
            expected=expected.get((one.labels["id"],)),
        )
        for one in found.get("gpuadmin_queue_place", ())
    ]  # fmt: skip
    closed = [(one.labels["node"], one.labels["reason"]) for one in found.get("gpuadmin_queue_node_closed", ())]
    return Queue(
        True,
        sorted(has, key=lambda one: (one.until or 0, one.id)),
        sorted(waits, key=lambda one: one.place),
        sorted(closed),
        [
            Job(one.labels["id"], one.labels["user"], "", until=one.value, why=one.labels["why"])
            for one in sorted(found.get("gpuadmin_queue_ended_timestamp_seconds", ()), key=lambda one: -one.value)
            if one.labels["why"] in ENDS
        ],
    )


def _describe_gpus(labels: Mapping[str, str]) -> str:
    """The GPUs that a waiting job asks for: `2`; `6 × 1` of an array."""
    tasks = count_tasks(labels["id"])
    return f"{tasks} × {labels['gpus']}" if tasks else labels["gpus"]

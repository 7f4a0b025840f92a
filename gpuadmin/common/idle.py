"""Who holds a GPU and does not use it, or has no grant for it, for how long, and what the site's policy says. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from .cluster import Device, Granted, Node
from .samples import Sample

#: Who has granted what a job of the queue has.
QUEUE = "Slurm"
#: Spans in hours: whether something was used at all in each shows for how long it was not.
SPANS = (6, 12, 24, 72, 168)


@dataclass(frozen=True)
class Idle:
    """Somebody holds a device now, and has not used it once in the last `hours` hours (or longer); or has no grant for
    it (`ungranted`: since when), and `hours` says nothing. `policy`: what the site's settings say: tell, or exempt.
    """

    user: str
    node: str
    uuid: str
    index: str
    name: str
    containers: tuple[str, ...]
    since: float | None
    hours: int
    policy: str
    unused: float | None = None  # since when, as its node says; None: it does not
    ungranted: float | None = None
    job: str = ""  # of Slurm's queue, which has the GPU for nothing

    @property
    def wrong_since(self) -> float | None:
        """Since when there is a reason to let go."""
        return self.unused if self.ungranted is None else self.ungranted


def spans(hours: int) -> tuple[int, ...]:
    """Given after how many hours somebody counts as idle, return the spans to ask for, the shortest first."""
    return (hours, *(span for span in SPANS if span > hours))


def idle(nodes: Iterable[Node], found: Mapping[int, Sequence[Sample]], exempt: Collection[str]) -> list[Idle]:
    """Given the cluster now, and for each span (hours) who was idle all that time, return who is, longest first.

    People who have let go since are left out, and so are nodes where it is unknown who holds what.
    """
    hours: dict[tuple[str, str, str], int] = {}
    for span in sorted(found):
        for sample in found[span]:
            hours[sample.labels.get("instance", ""), sample.labels.get("uuid", ""), sample.labels.get("user", "")] = (
                span
            )
    rows = []
    for node in nodes:
        for device in node.devices:
            # who has no grant is not asked whether it is used
            users = dict.fromkeys(holder.user for holder in device.holders or () if holder.ungranted is None)
            rows += [
                _row(device, user, hours[node.name, device.uuid, user], exempt)
                for user in users
                if (node.name, device.uuid, user) in hours
            ]
    return sorted(rows, key=lambda row: (-row.hours, row.user, row.node, row.index))


def ungranted(nodes: Iterable[Node]) -> list[Idle]:
    """Given the cluster now, return who holds a device without a grant, longest first."""
    rows = [
        replace(_row(device, user, 0, ()), ungranted=since)
        for node in nodes
        for device in node.devices
        for user, since in {one.user: one.ungranted for one in device.holders or ()}.items()
        if since is not None
    ]
    return sorted(rows, key=lambda row: (row.ungranted or 0, row.user, row.node, row.index))


def jobs(nodes: Iterable[Node], hours: int, now: float, exempt: Collection[str]) -> list[Idle]:
    """Given the cluster now, return a row for each GPU of jobs whose person has used none of them for so many hours,
    whether they hold them or not. A job that uses one of its GPUs is left out.
    """
    found: dict[str, list[tuple[Device, Granted]]] = {}
    for node in nodes:
        for device in node.devices:
            for one in device.granted:
                if (
                    one.who == QUEUE  # guard: what an admin writes as a reason is not a job of Slurm's
                    and one.reason.startswith("job ")
                ):
                    found.setdefault(one.reason, []).append((device, one))
    rows = []
    for pairs in found.values():
        since = [one.unused for _, one in pairs]
        # guard: a job that uses one of its GPUs is not idle
        if any(one is None or now - one < hours * 3600 for one in since):
            continue
        for device, one in pairs:
            row = _row(device, one.user, hours, exempt)
            rows.append(replace(row, unused=one.unused, job=one.job))
    return sorted(rows, key=lambda row: (row.unused or 0, row.user, row.node, row.index))


def _row(device: Device, user: str, hours: int, exempt: Collection[str]) -> Idle:
    mine = [holder for holder in device.holders or () if holder.user == user]
    since = [holder.since for holder in mine if holder.since is not None]
    unused = {holder.unused for holder in mine}
    return Idle(
        user, device.node, device.uuid, device.index, device.name,
        tuple(holder.container for holder in mine if holder.container), min(since, default=None), hours,
        "exempt" if user in exempt else "tell", unused.pop() if len(unused) == 1 else None,
    )  # fmt: skip

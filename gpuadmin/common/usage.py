"""How much of the GPUs was held, and how much of that was used, by person, their account in the queue, node or group of
nodes. Pure."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .samples import Sample, by

HOUR = 3600.0
#: The account of everybody who is in none of the site's own (slurm.groups).
EVERYBODY = "people"


@dataclass(frozen=True)
class Usage:
    """Hours of GPUs. `measured`: the held hours for which it is known whether they were used. `available`: hours in
    which the GPUs were there; None if a row is not of nodes.
    """

    name: str
    held: float
    measured: float
    active: float
    available: float | None
    granted: float = 0.0  # hours in which somebody was granted a device, whether they held it or not
    allocated: float = 0.0  # hours of GPUs that the queue gave to somebody; 0 for a row of nodes

    @property
    def efficiency(self) -> float | None:
        """Used, of what was held and measured; None if nothing was."""
        return None if self.measured <= 0 else min(self.active / self.measured, 1.0)

    @property
    def idle(self) -> float:
        """Hours held and surely not used."""
        return max(self.measured - self.active, 0.0)

    @property
    def share(self) -> float | None:
        """Held, of what was there: how much of what was bought is taken at all."""
        return None if not self.available else self.held / self.available


@dataclass(frozen=True)
class Measured:
    """The answers to the queries of `queries.py`: seconds by person, node and device; GPU seconds by node."""

    held: Sequence[Sample]
    measured: Sequence[Sample]
    active: Sequence[Sample]
    available: Sequence[Sample]
    mig: Sequence[Sample] = ()  # labels uuid and gpu: which GPU a MIG device is of
    granted: Sequence[Sample] = ()  # seconds; nothing where GPUs are open to everybody
    allocated: Sequence[Sample] = ()  # GPU seconds by user and account; nothing where there is no queue


@dataclass(frozen=True)
class Bought:
    """Of all hours in which GPUs were there: those in which anybody held one, used one, and the held hours for which
    nobody knows whether it was used (MIG devices). A GPU counts once, however many people share it.
    """

    available: float
    held: float
    used: float
    unknown: float

    def words(self) -> str | None:
        """One sentence; None if nothing is known of the GPUs."""
        if self.available <= 0:
            return None
        held, used, unknown = (value / self.available for value in (self.held, self.used, self.unknown))
        more = f"; for {unknown:.0%} nobody knows" if unknown >= 0.005 else ""
        return f"Of {self.available:,.0f} GPU-hours available, {held:.0%} were held and {used:.0%} used{more}."


def usage(
    found: Measured, kind: str, groups: Mapping[str, Sequence[str]], accounts: Mapping[str, str] | None = None
) -> list[Usage]:
    """Given what was measured and by what to add it up (user, account, node or group), return a row for each, most held
    first.

    `groups`: the groups of each node of the site; what was measured of others is left out. `accounts`: the account of
    each person who has another one than EVERYBODY's.
    """
    kinds = ("held", "measured", "active", "granted")
    seconds = {what: by(getattr(found, what), "user", "instance", "uuid") for what in kinds}
    there = {node: value for (node,), value in by(found.available, "instance").items()}
    sums: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys((*kinds, "allocated"), 0.0))
    for what, values in seconds.items():
        for (user, node, _uuid), value in values.items():
            for name in _names(kind, user, node, groups, accounts):
                sums[name][what] += value
    if kind in ("user", "account"):
        for name, value in _summed(found.allocated, kind).items():
            sums[name]["allocated"] += value
    for node in there:
        for name in _names(kind, None, node, groups):
            sums[name]["held"] += 0.0
    rows = [_row(name, values, _available(kind, name, there, groups)) for name, values in sums.items()]
    return sorted(rows, key=lambda row: (-row.held, row.name))


def total(found: Measured, groups: Mapping[str, Sequence[str]]) -> Usage:
    """All nodes of the site together."""
    rows = usage(found, "node", groups)
    there = [row.available for row in rows if row.available is not None]
    return Usage(
        "all", sum(row.held for row in rows), sum(row.measured for row in rows), sum(row.active for row in rows),
        sum(there) if there else None, sum(row.granted for row in rows),
        sum(one.value for one in found.allocated) / HOUR,
    )  # fmt: skip


def bought(found: Measured, groups: Mapping[str, Sequence[str]], days: int) -> Bought:
    """How much of what was bought was used. Two people on one GPU count one after the other, up to the whole time: who
    was there at once, counters do not say. Of a divided GPU the device counts that was held longest.
    """
    gpu_of = {(node, uuid): gpu for (node, uuid, gpu) in by(found.mig, "instance", "uuid", "gpu")}
    there = {node: value for (node,), value in by(found.available, "instance").items() if node in groups}
    seconds: dict[str, dict[tuple[str, str], float]] = {}
    for what in ("held", "measured", "active"):
        devices: dict[tuple[str, str], float] = defaultdict(float)
        for (_user, node, uuid), value in by(getattr(found, what), "user", "instance", "uuid").items():
            if node in there:
                devices[node, uuid] += value
        seconds[what] = devices
    gpus: dict[tuple[str, str], tuple[float, float, float]] = {}
    for (node, uuid), value in seconds["held"].items():
        held = min(value, days * 24 * HOUR, there[node])
        measured = min(seconds["measured"].get((node, uuid), 0.0), held)
        used = min(seconds["active"].get((node, uuid), 0.0), measured)
        key = node, gpu_of.get((node, uuid), uuid)
        gpus[key] = max(gpus.get(key, (0.0, 0.0, 0.0)), (held, used, held - measured))
    sums = [sum(one[number] for one in gpus.values()) / HOUR for number in range(3)]
    return Bought(sum(there.values()) / HOUR, *sums)


def sum_projects(samples: Iterable[Sample]) -> dict[str, float]:
    """Given the answer to queries.project_seconds, return the GPU-hours that the queue gave, most first; of no project
    under ``""``.
    """
    sums = _summed(samples, "project")
    return {name: sums[name] / HOUR for name in sorted(sums, key=lambda name: (-sums[name], name))}


def _summed(samples: Iterable[Sample], label: str) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for one in samples:
        found[one.labels.get(label, "")] += one.value
    return found


def _names(
    kind: str,
    user: str | None,
    node: str,
    groups: Mapping[str, Sequence[str]],
    accounts: Mapping[str, str] | None = None,
) -> Iterable[str]:
    if node not in groups:
        return ()
    if kind in ("user", "account"):
        return () if user is None else (user if kind == "user" else (accounts or {}).get(user, EVERYBODY),)
    return (node,) if kind == "node" else groups[node]


def _row(name: str, values: Mapping[str, float], available: float | None) -> Usage:
    kinds = ("held", "measured", "active", "granted", "allocated")
    held, measured, active, granted, allocated = (values[what] / HOUR for what in kinds)
    return Usage(name, held, measured, active, available, granted, allocated)


def _available(kind: str, name: str, there: Mapping[str, float], groups: Mapping[str, Sequence[str]]) -> float | None:
    if kind in ("user", "account"):
        return None
    nodes = [node for node in there if name in _names(kind, None, node, groups)]
    return sum(there[node] for node in nodes) / HOUR if nodes else None


def format_csv(rows: Iterable[Sequence[object]]) -> str:
    """Rows for a spreadsheet, each with its name first: numbers with three decimals, nothing for None. A name that
    would be taken for a formula begins with a quote."""
    text = io.StringIO()
    for name, *cells in rows:
        shown = ("" if one is None else f"{one:.3f}" if isinstance(one, (int, float)) else one for one in cells)
        quote = "'" if str(name)[:1] in ("=", "+", "-", "@") else ""
        csv.writer(text, lineterminator="\n").writerow((f"{quote}{name}", *shown))
    return text.getvalue()

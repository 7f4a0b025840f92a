"""From what was measured of directories to what each person has, and to samples for Prometheus."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuadmin.common.metrics import UNKNOWN

from ..metrics.exposition import Samples
from .records import Place, Records
from .tree import MOST

#: By person and place.
People = dict[tuple[str, str], "Holding"]


@dataclass
class Holding:
    """``when``: seconds since 1970, of the oldest figure in it. ``partial``: it is more than was counted."""

    bytes: int = 0
    inodes: int = 0
    when: float = 0.0
    partial: bool = False
    largest: list[tuple[str, int, int]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        largest = [{"path": path, "bytes": size, "inodes": inodes} for path, size, inodes in self.largest]
        return {**vars(self), "largest": largest}


def people(places: Sequence[Place], records: Records, user: Callable[[int], str | None]) -> People:
    """``user(uid)``: the name of whoever a uid belongs to, None if that is not known without doubt."""
    at = {place.path: place for place in places}
    found: People = {}
    for (directory, name), record in records.items():
        place = at.get(directory)
        if place is None:
            continue
        path = os.path.join(directory, name) if name else directory
        for uid, part in record.people.items():
            held = found.setdefault(
                (
                    # guard: what somebody's directory is called says nothing of whose it is -> name or UNKNOWN
                    user(int(uid)) or UNKNOWN,
                    place.name,
                ),
                Holding(when=record.when),
            )
            held.bytes += part.bytes
            held.inodes += part.inodes
            held.when = min(held.when, record.when)
            held.partial = held.partial or bool(record.problem or part.problem)
            own = [] if place.by_owner else [(path, part.bytes, part.inodes)]
            below = [(os.path.join(path, one[0]), int(one[1]), int(one[2])) for one in part.largest]
            held.largest = heapq.nlargest(MOST, [*held.largest, *own, *below], key=lambda one: one[1:])
    return found


def samples(found: Mapping[tuple[str, str], Holding]) -> Samples:
    """No name of a directory is in them."""
    result = Samples()
    for (user, place), held in found.items():
        labels = {"user": user, "place": place}
        result.put("gpuadmin_user_disk_bytes", held.bytes, **labels)
        result.put("gpuadmin_user_disk_inodes", held.inodes, **labels)
        result.put("gpuadmin_user_disk_timestamp_seconds", round(held.when), **labels)
        if held.partial:
            result.put("gpuadmin_user_disk_partial", 1, **labels)
    return result

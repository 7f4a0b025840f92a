"""From what was measured of directories to what each person has, and to samples for Prometheus."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Mapping, Sequence

from gpuadmin.common.metrics import UNKNOWN
from gpuadmin.common.records.hosts import Directory, Held

from ..metrics.exposition import Samples
from .records import Place, Records
from .tree import MOST

#: By person and place.
People = dict[tuple[str, str], Held]


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
                Held(0, 0, record.when, False, []),
            )
            held.bytes += part.bytes
            held.inodes += part.inodes
            held.when = min(held.when, record.when)
            held.partial = held.partial or bool(record.problem or part.problem)
            own = [] if place.by_owner else [Directory(path, part.bytes, part.inodes)]
            below = [Directory(os.path.join(path, one[0]), int(one[1]), int(one[2])) for one in part.largest]
            largest = [*held.largest, *own, *below]
            held.largest = heapq.nlargest(MOST, largest, key=lambda one: (one.bytes, one.inodes))
    return found


def samples(found: Mapping[tuple[str, str], Held]) -> Samples:
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

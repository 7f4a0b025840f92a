"""What each page shows, as plain values for its template. Pure. What a viewer may not know is not in them at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..common.cluster import Device, Holder, Node, totals
from ..common.free import GIB, rooms
from ..common.hints import hints
from ..common.metrics import UNKNOWN
from ..common.samples import Sample
from ..common.usage import Measured, Usage, usage
from .queries import KINDS
from .snapshot import Disk, Snapshot
from .viewer import Viewer

#: Jobs that wait, by name on the first page.
MOST_WAITING = 8


def overview(look: Snapshot) -> dict[str, Any]:
    """All nodes at a glance: those with a problem first only where the site's order does not say otherwise."""
    free = Counter(device.name for node in look.nodes for device in node.free)
    waits = () if look.queue is None else look.queue.waits
    return {
        "totals": totals(look.nodes),
        "nodes": [_make_node_row(node, look) for node in look.nodes],
        "free": sorted(free.items(), key=lambda one: (-one[1], one[0])),
        "waits": waits[:MOST_WAITING], "more": len(waits[MOST_WAITING:]),
    }  # fmt: skip


def cluster_now(look: Snapshot) -> dict[str, Any]:
    """All nodes and GPUs, as the record ClusterNow has them."""
    nodes = []
    for node in look.nodes:
        glances = [_make_glance(device, look) for device in node.devices if device.usable or device.lost]
        gpus = [
            {
                **{name: one[name] for name in ("index", "name", "state", "memory", "memory_used")},
                "use": one["utilization"],
                "people": [
                    {"name": user, "until": None if left is None else look.when + left} for user, left in one["people"]
                ],
            }
            for one in glances
        ]
        known = bool(gpus) or (node.problem is None and not node.expected)
        nodes.append({"name": node.name, "state": node.state, "known": known, "gpus": gpus})
    return {"when": look.when, "nodes": nodes}


def _make_node_row(node: Node, look: Snapshot) -> dict[str, Any]:
    usable = [device for device in node.devices if device.usable or device.lost]
    heat = [device.temperature for device in node.devices if device.temperature is not None]
    disks = look.disks.get(node.name, ())
    return {
        **_state(node, look),
        "devices": [_make_glance(device, look) for device in usable],
        "models": sorted({device.name for device in usable}),
        "counts": Counter(state(device) for device in usable),
        "expected": node.expected,
        "memory": _describe_memory(node),
        "temperature": max(heat, default=None),
        "disk": _describe_disk(disks[0]) if disks else None,
        "alerts": [name for name, _severity in look.alerts.get(node.name, ())],
    }


def _state(node: Node, look: Snapshot) -> dict[str, Any]:
    """Up or not, and since when: a node that is up since it was started, another since it was last seen."""
    since = look.booted.get(node.name) if node.state == "up" else look.seen.get(node.name)
    return {"name": node.name, "state": node.state, "since": since, "problem": node.problem}


def state(device: Device) -> str:
    """free, granted (and not held), held, lost or unknown; divided for a GPU whose MIG devices are given to people."""
    if device.lost:
        return "lost"
    if not device.usable:
        return "divided"
    if device.holders is None:
        return "unknown"
    return "held" if device.holders else "granted" if device.granted else "free"


def _make_glance(device: Device, look: Snapshot) -> dict[str, Any]:
    """A device in a line. `people`: who holds it or was granted it, and for how long (seconds; None: no grant)."""
    left = {one.user: one.until - look.when for one in device.granted}
    users = sorted({one.user for one in device.holders or ()} | set(left))
    return {
        "index": device.index, "state": state(device), "name": device.name, "utilization": device.utilization,
        "memory": device.memory, "memory_used": device.memory_used,
        "people": [(user, left.get(user)) for user in users],
    }  # fmt: skip


def _describe_memory(node: Node) -> dict[str, float] | None:
    if node.memory is None or node.memory_available is None or node.memory <= 0:
        return None
    return {"size": node.memory, "free": node.memory_available, "used": 1 - node.memory_available / node.memory}


def _describe_disk(disk: Disk) -> dict[str, Any]:
    return {"path": disk.path, "size": disk.size, "free": disk.free, "used": disk.used}


def device_row(device: Device, look: Snapshot) -> dict[str, Any]:
    """A GPU or MIG device, and who holds it."""
    key = device.node, device.uuid
    used = None
    if device.memory is not None and device.memory_used is not None and device.memory > 0:
        used = device.memory_used / device.memory
    return {
        "node": device.node, "index": device.index, "name": device.name, "state": state(device),
        "utilization": device.utilization, "memory": device.memory, "memory_used": device.memory_used, "used": used,
        "power": device.power, "limit": look.limits.get(key), "temperature": device.temperature,
        "slowed": list(look.throttled.get(key, ())),
        "holders": [_describe_holder(one, device, look) for one in device.holders or ()],
        "grants": [
            {"user": one.user, "left": one.until - look.when, "who": one.who, "reason": one.reason}
            for one in device.granted
        ],
    }  # fmt: skip


def _describe_holder(one: Holder, device: Device, look: Snapshot) -> dict[str, Any]:
    idle = [row.hours for row in look.idle if (row.node, row.uuid, row.user) == (device.node, device.uuid, one.user)]
    return {
        "user": one.user, "container": one.container, "since": one.since,
        "idle": max(idle, default=None), "ungranted": one.ungranted,
    }  # fmt: skip


def node_page(node: Node, look: Snapshot) -> dict[str, Any]:
    """One node: its devices, processors, memory, disks, people and problems."""
    people = [
        {"name": user, "cores": one.cores, "memory": one.memory, "tasks": one.tasks}
        for user, one in look.people.get(node.name, {}).items()
    ]
    return {
        **_state(node, look),
        "expected": node.expected,
        "devices": [device_row(device, look) for device in node.devices],
        "cpu": look.cpu.get(node.name),
        "load": node.load,
        "memory": _describe_memory(node),
        "disks": [_describe_disk(disk) for disk in look.disks.get(node.name, ())],
        "people": sorted(people, key=lambda one: (-(one["cores"] or 0), one["name"])),
        "alerts": list(look.alerts.get(node.name, ())),
    }


def known_people(look: Snapshot, viewer: Viewer, spent: Sequence[Sample] | None = None) -> set[str]:
    """Who has a page: everybody with measurements or GPU-hours (`spent`: the answer to queries.hours_of_all), and the
    person who looks, even without any. An admin who looks need not be one of the people.
    """
    return (look.users() | set(_sum_hours(spent or (), look)) | (set() if viewer.admin else {viewer.name})) - {
        UNKNOWN,  # guard: whom nobody knows has no page
        "",
    }


def people_page(
    look: Snapshot, viewer: Viewer, days: int, spent: Sequence[Sample] | None, admins: Collection[str] = ()
) -> dict[str, Any]:
    """Everybody, most devices first, and their GPU-hours of so many days; `spent`: the answer to queries.hours_of_all,
    None if there was none. `admins`: accounts that are no person's; one that has used a GPU is shown all the same.
    """
    held: Counter[str] = Counter()
    idle = Counter(row.user for row in look.idle)
    for node in look.nodes:
        for device in node.devices:
            held.update({one.user for one in device.holders or ()})
    hours = {} if spent is None else _sum_hours(spent, look)
    rows: list[dict[str, Any]] = []
    for user in known_people(look, viewer, spent):
        if user in admins and not held[user] and user not in hours:
            continue
        # somebody who holds something but has no number has not held nothing
        usual = (None, None) if spent is None or held[user] else (0.0, 0.0)
        rows.append({"name": user, "count": held[user], "idle": idle[user], "hours": hours.get(user, usual)})
    return {"days": days, "people": sorted(rows, key=lambda row: (-row["count"], -(row["hours"][0] or 0), row["name"]))}


def _sum_hours(spent: Sequence[Sample], look: Snapshot) -> dict[str, tuple[float | None, float | None]]:
    """By person: hours held and hours used; None if nothing says whether what was held was used."""
    kinds = [[one for one in spent if one.labels.get("kind") == kind] for kind in KINDS]
    found = usage(measured(*kinds), "user", {node.name: () for node in look.nodes})
    return {row.name: (row.held, row.active if _has_use(row) else None) for row in found}


def _has_use(row: Usage) -> bool:
    """Whether anything says if what was held was used: of MIG devices, nothing does."""
    return row.held <= 0 or row.measured > 0


def person_page(user: str, look: Snapshot, viewer: Viewer, spent: Mapping[int, Measured]) -> dict[str, Any]:
    """One person: what they hold, and GPU-hours by span (days); and for themselves and admins disk and hints."""
    nodes = [node.held_by(user) for node in look.nodes]
    page: dict[str, Any] = {
        "name": user,
        "devices": [device_row(device, look) for node in nodes for device in node.devices],
        "unsure": [node.name for node in look.nodes if not _knows_holders(node)],
        "hours": [_make_hours_rows(days, found, user, look) for days, found in sorted(spent.items())],
        "nodes": [
            {"node": node, "cores": people[user].cores, "memory": people[user].memory, "tasks": people[user].tasks}
            for node, people in look.people.items()
            if user in people
        ],
        "private": viewer.may_see_private(user),
    }
    if page["private"]:  # guard: a page is not even given what is private -> True
        cores = {node: people[user].cores or 0.0 for node, people in look.people.items() if user in people}
        page["disk"] = look.disk.get(user)
        page["hints"] = hints(user, look.nodes, look.idle, look.worked, cores, look.when)
    return page


def _make_hours_rows(days: int, found: Measured, user: str, look: Snapshot) -> dict[str, Any]:
    groups: dict[str, Sequence[str]] = {node.name: () for node in look.nodes}
    row = next((row for row in usage(found, "user", groups) if row.name == user), None)
    if row is None:
        return {"days": days, "held": 0.0, "active": 0.0, "idle": 0.0, "efficiency": None}
    known = _has_use(row)
    return {
        "days": days, "held": row.held, "active": row.active if known else None, "idle": row.idle if known else None,
        "efficiency": row.efficiency,
    }  # fmt: skip


def free_page(look: Snapshot, gpus: int, memory: int) -> dict[str, Any]:
    """Where somebody can run now: nodes with so many free devices with so much GiB left, as `gpuadmin top --free`."""
    found = [
        {
            "name": room.node.name,
            "devices": [
                {"index": device.index, "name": device.name, "memory": device.memory_free} for device in room.devices
            ],
            "cpu": look.cpu.get(room.node.name),
            "memory": _describe_memory(room.node),
        }
        for room in rooms(look.nodes, gpus, memory)
    ]
    sizes = sorted({int(one.memory // GIB) for node in look.nodes for one in node.devices if one.usable and one.memory})
    unsure = [node.name for node in look.nodes if node.state != "up" or not _knows_holders(node)]
    jobs = () if look.queue is None else look.queue.has
    return {
        "rooms": found, "gpus": gpus, "memory": memory, "sizes": sizes, "unsure": unsure,
        "next": next((one for one in jobs if one.until and one.until > look.when), None),
        "waiting": 0 if look.queue is None else len({one.user for one in look.queue.waits}),
    }  # fmt: skip


def _knows_holders(node: Node) -> bool:
    """Whether it is known who holds its devices."""
    return all(device.holders is not None for device in node.devices)


def measured(held: Sequence[Sample], known: Sequence[Sample], active: Sequence[Sample]) -> Measured:
    """One person's seconds, as the rules of `gpuadmin usage` take them."""
    return Measured(held=held, measured=known, active=active, available=())

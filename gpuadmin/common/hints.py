"""Hints for people: what somebody could do better with what they hold. Nothing is said that is not known. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .cluster import Device, Node
from .idle import Idle

_GIB = 1024**3
_SETTLED = 900  # seconds: what somebody holds for less is still starting


@dataclass(frozen=True)
class Hint:
    """One thing about one device. `code`: idle (`amount`: hours), or data-loader (`amount`: ratio in which the GPU
    worked).
    """

    code: str
    node: str
    index: str
    amount: float


def hints(
    user: str,
    nodes: Iterable[Node],
    idle: Iterable[Idle],
    worked: Mapping[tuple[str, str], float],
    cores: Mapping[str, float],
    now: float,
) -> list[Hint]:
    """Given the cluster now, who is idle, how much each device worked lately (node and uuid → ratio) and how many
    processor cores the person keeps busy (node → cores), return what that person could do.
    """
    idle_for = {(one.node, one.uuid): one.hours for one in idle if one.user == user}
    found = []
    for node in nodes:
        for device in node.devices:
            hint = _of_device(user, device, idle_for, worked, cores.get(node.name), now)
            if hint is not None:
                found.append(hint)
    return found


def _of_device(
    user: str,
    device: Device,
    idle_for: Mapping[tuple[str, str], int],
    worked: Mapping[tuple[str, str], float],
    cores: float | None,
    now: float,
) -> Hint | None:
    mine = [one for one in device.holders or () if one.user == user]
    key = device.node, device.uuid
    if not mine:
        return None
    if key in idle_for:
        return Hint("idle", device.node, device.index, idle_for[key])
    since = [one.since for one in mine if one.since is not None]
    if not since or now - min(since) < _SETTLED:
        return None
    ratio = worked.get(key)
    # with two people on a device, nobody knows whose work it was
    # guard: a GPU of which nobody knows who holds it gives no hint -> True
    alone = len(mine) == len(device.holders or ())
    waits = ratio is not None and 0.01 < ratio < 0.4 and (device.memory_used or 0) >= _GIB
    if ratio is not None and alone and waits and cores is not None and cores >= 1:
        return Hint("data-loader", device.node, device.index, ratio)
    return None

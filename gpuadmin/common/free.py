"""Where somebody can run now: the nodes with enough devices that nobody holds. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .cluster import Device, Node

GIB = 1024**3


@dataclass(frozen=True)
class Room:
    """A node and those devices of it that are free and large enough."""

    node: Node
    devices: tuple[Device, ...]


def rooms(nodes: Iterable[Node], gpus: int, memory: int) -> list[Room]:
    """Given how many devices somebody needs on one node, and GiB of memory that each must have left, return the nodes
    that have them: the one that is filled best comes first, so that large requests find whole nodes later.
    """
    found = []
    for node in nodes:
        devices = tuple(device for device in node.free if _fits(device, memory))
        if len(devices) >= gpus:
            found.append(Room(node, devices))
    return sorted(found, key=lambda room: (len(room.devices), room.node.name))


def _fits(device: Device, memory: int) -> bool:
    """A device that does not say how much memory it has left fits only those who do not ask."""
    left = device.memory_free
    return memory == 0 or (left is not None and left >= memory * GIB)

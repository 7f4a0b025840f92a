"""Which GPUs are granted to whom, and who holds one without a grant: what is open when a grant ends stays open.

Pure, but for look().
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..fields import FIRST_HUMAN_UID
from ..gpus import gate
from ..gpus.grants import Grant, in_force
from ..paths import STATE
from .gpu_holders import Holdings
from .record import Device

SETTINGS = gate.SETTINGS


@dataclass(frozen=True)
class Granted:
    """The grants of a node where people can open only what they were granted.

    ``files``: GPU → its device files, where the driver is not asked for them. ``exempt``: whose slices are open.
    """

    grants: Sequence[Grant]
    files: Mapping[str, Sequence[str]]
    exempt: Collection[str]

    def of(self, device: Device, devices: Iterable[Device]) -> list[Grant]:
        """The grants of a GPU; of a MIG device those of its GPU. ``devices``: all of the node."""
        names = {device.uuid}
        if device.minor is not None:
            names |= {one.uuid for one in devices if one.gi is None and one.minor == device.minor}
            names |= {name for name, paths in self.files.items() if f"/dev/nvidia{device.minor}" in paths}
        return [one for one in self.grants if names & set(one.gpus)]

    def naming(self, device: Device, devices: Iterable[Device]) -> list[Grant]:
        """The same, but of a MIG device only the grants of itself: those of its GPU are told once, with the GPU."""
        return [one for one in self.of(device, devices) if device.gi is None or device.uuid in one.gpus]

    def lacks(self, uid: int | None, user: str, device: Device, devices: Iterable[Device]) -> bool:
        """Whether somebody would need a grant for a device and has none. Nobody knows who None is."""
        return (
            uid is not None
            and uid >= FIRST_HUMAN_UID  # guard: root and daemons need no grant
            and user not in self.exempt  # guard: whose slice is open needs no grant
            and all(one.uid != uid for one in self.of(device, devices))
        )


def look(now: float, state: str = STATE, settings: str = SETTINGS) -> Granted | None:
    """None where GPUs are open to everybody. Raises NodeError where not all of it can be read, and OSError."""
    found = in_force(now, state, settings)
    return None if found is None else Granted(found[1], found[0].gpus or {}, found[0].exempt)


def ungranted(
    found: Holdings, devices: Sequence[Device], uids: Mapping[str, int | None], granted: Granted
) -> set[tuple[str, str]]:
    """Who holds what without a grant, by uuid and user. ``uids``: of all who hold something."""
    by_uuid = {one.uuid: one for one in devices}
    return {
        (uuid, user)
        for uuid, user, _container in found
        if uuid in by_uuid and granted.lacks(uids.get(user), user, by_uuid[uuid], devices)
    }

"""What hosts report of GPUs: what there is of them, who was granted which, and what becomes of holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Optional, Union

from .bounds import Count, When


@dataclass(frozen=True)
class Device:
    """A GPU as NVML has it, or a MIG device; what it does not say is None, or not there."""

    index: Union[int, str]
    name: Optional[str] = None
    uuid: Optional[str] = None
    serial: Union[str, int, None] = None
    address: Optional[str] = None
    problem: Optional[str] = None
    lacks: list[str] = field(default_factory=list)
    memory: Optional[Count] = None
    mig: Optional[bool] = None
    mig_pending: Optional[bool] = None
    pcie_width: Optional[Count] = None
    pcie_width_max: Optional[Count] = None
    ecc: Optional[bool] = None
    ecc_pending: Optional[bool] = None
    ecc_uncorrected: Optional[Count] = None


@dataclass(frozen=True)
class Gpu(Device):
    mig_devices: Optional[list[Device]] = None


@dataclass(frozen=True)
class Nvml:
    driver: Optional[str]
    cuda: Optional[str]
    gpus: list[Gpu] = field(default_factory=list)


@dataclass(frozen=True)
class OnBus:
    address: str
    vendor: str
    device: str
    driver: Optional[str]
    name: Optional[str]
    width: Optional[Count]
    width_max: Optional[Count]


@dataclass(frozen=True)
class Driver:
    module: Optional[str]


@dataclass(frozen=True)
class Gpus:
    pci: list[OnBus]
    driver: Driver
    nvml: Optional[Nvml]
    answering: Count
    broken: list[str]
    worse: list[str]


@dataclass(frozen=True)
class Grant:
    id: str
    user: str
    gpus: list[str]
    until: When
    who: str
    reason: str


@dataclass(frozen=True)
class Grants:
    access: Literal["open", "granted"]
    gpus: list[str]
    grants: list[Grant]
    held: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Division:
    """What happens to a GPU, or did: into which MIG devices it is divided, or why not."""

    gpu: Count
    state: Literal["as wanted", "change", "waits", "refused"]
    words: str
    people: list[str]


@dataclass(frozen=True)
class Mig:
    steps: list[Division]


@dataclass(frozen=True)
class Ended:
    """What became of somebody's hold on a GPU."""

    user: str
    uuid: str
    status: Literal["stopped", "would stop", "gone", "kept"]
    why: str
    processes: Count
    containers: list[str]


@dataclass(frozen=True)
class Idle:
    stopped: list[Ended]

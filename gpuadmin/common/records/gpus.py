"""Records of GPUs: the devices and their driver, grants, MIG, and holds that end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Optional, Union

from .bounds import Count, Time


@dataclass(frozen=True)
class Device:
    """A GPU as NVML has it, or a MIG device. A field that NVML does not say is None, or missing."""

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
    """A GPU on the bus. `driver`: the kernel's driver that has it, or None. Widths are lanes, None if unknown."""

    address: str
    vendor: str
    device: str
    driver: Optional[str]
    width: Optional[Count]
    width_max: Optional[Count]
    name: Optional[str]


@dataclass(frozen=True)
class Driver:
    """NVIDIA's driver on a host. None: the part is not installed, or does not say."""

    #: The loaded module's version.
    module: Optional[str]
    #: The kernel that runs.
    kernel: str = ""
    #: Whether the loaded module is the open one, and the kernel that runs has the module in its directory.
    open_module: bool = False
    built: bool = False
    #: Whether that driver is loaded.
    nouveau: bool = False
    #: The file that programs load, and its version.
    library: Optional[str] = None
    libraries: Optional[str] = None
    #: Whether /dev/nvidiactl is there.
    nodes: bool = False


@dataclass(frozen=True)
class Gpus:
    pci: list[OnBus]
    driver: Driver
    nvml: Optional[Nvml]
    answering: Count
    broken: list[str]
    worse: list[str]
    #: Why the node takes no work, in sentences.
    closed: list[str]


@dataclass(frozen=True)
class Grant:
    """`begin`, `until`: seconds since 1970. `source`: who decides it.

    `memory` (bytes), `processors`: what the person's slice may take more, because Slurm gave it to their job.
    `process`, `started` (ticks since the boot): the process as long as which it holds; 0: until its end.
    """

    id: str
    user: str
    uid: int
    #: As device_files.py of the node's code has them.
    gpus: Sequence[str]
    begin: Time
    until: Time
    who: str
    reason: str
    source: str = "admin"
    memory: int = 0
    processors: int = 0
    process: int = 0
    started: int = 0


@dataclass(frozen=True)
class SelfService:
    """What one person may take of a node's GPUs without asking: so many at once, for so many hours."""

    gpus: int
    hours: int


@dataclass(frozen=True)
class Grants:
    access: Literal["open", "granted"]
    gpus: list[str]
    grants: list[Grant]
    held: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Division:
    """A step of dividing a GPU into MIG devices. `words`: the MIG devices, or why there are none.

    `people`: those who keep it. `commands`: the ones that divide it now.
    """

    gpu: Count
    state: Literal["as wanted", "change", "waits", "refused"]
    words: str
    people: Sequence[str]
    commands: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class Mig:
    steps: list[Division]


@dataclass(frozen=True)
class HeldGpu:
    """Somebody's hold on a GPU or MIG device that is to end. `since`: from when on it was not used or (`why`) not
    granted, as it was when they were told (`notified`); where the collector says another time by now, it was used, or
    granted. Seconds since 1970."""

    user: str
    uid: int
    uuid: str
    since: int
    notified: int
    why: Literal["unused", "ungranted", "job_unused"] = "unused"


@dataclass(frozen=True)
class Ended:
    """The end of somebody's hold on a GPU."""

    user: str
    uuid: str
    status: Literal["stopped", "would stop", "gone", "kept"]
    why: str
    processes: Count
    containers: list[str]


@dataclass(frozen=True)
class Idle:
    stopped: list[Ended]

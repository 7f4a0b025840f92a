"""What is reported by a look at a host: its state, its GPUs, a diagnosis, disks, and an admin's own command."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from gpuadmin.ansible.shapes.bounds import Count, Stamp, When, Words
from gpuadmin.ansible.shapes.images import Switch


class Power(TypedDict):
    people: list[str] | None
    clients: list[str] | None
    jobs: list[str] | None
    unknown: Words


class Device(TypedDict):
    """A GPU as NVML has it, or a MIG device; what it does not say is None, or not there."""

    index: int | str
    name: NotRequired[str | None]
    uuid: NotRequired[str | None]
    serial: NotRequired[str | int | None]
    address: NotRequired[str | None]
    problem: NotRequired[str | None]
    lacks: NotRequired[list[str]]
    memory: NotRequired[Count | None]
    mig: NotRequired[bool | None]
    mig_pending: NotRequired[bool | None]
    mig_devices: NotRequired[list[Device] | None]
    pcie_width: NotRequired[Count | None]
    pcie_width_max: NotRequired[Count | None]
    ecc: NotRequired[bool | None]
    ecc_pending: NotRequired[bool | None]
    ecc_uncorrected: NotRequired[Count | None]


class Nvml(TypedDict):
    driver: str | None
    cuda: str | None
    gpus: NotRequired[list[Device]]


class OnBus(TypedDict):
    address: str
    vendor: str
    device: str
    driver: str | None
    name: str | None
    width: Count | None
    width_max: Count | None


class Driver(TypedDict):
    module: str | None


class Gpus(TypedDict):
    pci: list[OnBus]
    driver: Driver
    nvml: Nvml | None
    answering: Count
    broken: list[str]
    worse: list[str]


class Grant(TypedDict):
    id: str
    user: str
    gpus: list[str]
    until: When
    who: str
    reason: str


class Grants(TypedDict):
    access: Literal["open", "granted"]
    gpus: list[str]
    grants: list[Grant]
    held: NotRequired[dict[str, list[str]]]


class Made(TypedDict):
    """An admin has made it, in its person's name."""

    id: str
    who: str
    reason: str


class Job(TypedDict):
    """A job of the queue. `place`: in the order of those that wait, from 1; 0: it runs. `why`: it waits, in words."""

    id: str
    user: str
    group: str
    gpus: Count
    nodes: str
    place: Count
    asked: When | None
    start: When | None
    end: When | None
    why: str
    exception: NotRequired[Made | None]


class QueueNode(TypedDict):
    name: str
    state: str
    reason: str


class Reservation(TypedDict):
    """Nodes that are somebody's from a time on; `users`: empty where they are of nobody in particular."""

    name: str
    nodes: list[str]
    users: list[str]
    begin: When
    end: When


class Queue(TypedDict):
    jobs: list[Job]
    nodes: list[QueueNode]
    reservations: NotRequired[list[Reservation]]
    version: NotRequired[list[Count] | None]


class Division(TypedDict):
    """What happens to a GPU, or did: into which MIG devices it is divided, or why not."""

    gpu: Count
    state: Literal["as wanted", "change", "waits", "refused"]
    words: str
    people: list[str]


class Mig(TypedDict):
    steps: list[Division]


class Clock(TypedDict):
    seconds: When
    service: NotRequired[str | None]


class Cause(TypedDict):
    code: str
    cause: str
    remedy: str
    evidence: list[str]


class Docker(TypedDict):
    data: dict[str, Any] | None


class Manager(TypedDict):
    manager: str | None


class Containers(TypedDict):
    asked: bool
    running: NotRequired[Count]


class Key(TypedDict):
    kind: str | None
    problem: str | None


class Keys(TypedDict):
    keys: list[Key]


class SiteKeys(TypedDict):
    site: NotRequired[Keys | None]


class Step(TypedDict):
    code: str


class Trial(TypedDict):
    """A session of the person's that was tried."""

    steps: dict[str, Step]
    done: bool


class Diagnosis(TypedDict):
    node: bool
    causes: list[Cause]
    unknown: Words
    trial: NotRequired[Trial | None]
    clock: NotRequired[Clock | None]
    docker: NotRequired[Docker | None]
    sessions: NotRequired[Manager | None]
    containers: NotRequired[Containers | None]
    keys: NotRequired[SiteKeys | None]


class Measured(TypedDict):
    text: str


class Ended(TypedDict):
    """What became of somebody's hold on a GPU."""

    user: str
    uuid: str
    status: Literal["stopped", "would stop", "gone", "kept"]
    why: str
    processes: Count
    containers: list[str]


class Idle(TypedDict):
    stopped: list[Ended]


class Disk(TypedDict):
    path: str
    mount: str
    bytes: Count
    free: Count


class Newest(TypedDict):
    """The newest backup: how many homes, and how many of them are verified."""

    name: str
    created: Stamp
    homes: Count
    verified: Count
    problems: Count
    copies: Words
    uncopied: NotRequired[dict[str, list[str]]]


class Image(TypedDict):
    running: str
    current: str
    trial: str
    image: str | None
    last: Switch | None
    drift: list[str]


class Status(TypedDict):
    unknown: Words
    disks: dict[str, Disk]
    backup: NotRequired[Newest | None]
    people: NotRequired[list[str] | None]
    gpu_people: NotRequired[list[str] | None]
    gpus: NotRequired[list[str] | None]
    gpu_gate: NotRequired[list[str] | None]
    queue: NotRequired[Words]
    image: NotRequired[Image | None]


class Command(TypedDict):
    status: Annotated[int, Field(ge=-(2**31), lt=2**31)]
    output: str
    errors: str


class Directory(TypedDict):
    path: str
    bytes: Count
    inodes: Count


class Held(TypedDict):
    """What somebody's files take at one place."""

    bytes: Count
    inodes: Count
    when: When
    partial: bool
    largest: list[Directory]


class Disks(TypedDict):
    people: dict[str, dict[str, Held]]


_Line = Annotated[str, Field(max_length=400)]
_Lines = Annotated[list[_Line], Field(max_length=100)]


class Privilege(TypedDict):
    key: _Line
    words: _Line
    rank: Literal["root", "differs"]


class Privileges(TypedDict):
    """Who is root on a host, or could be, and what differs from its packages."""

    found: Annotated[list[Privilege], Field(max_length=1000)]
    sshd: Annotated[dict[_Line, _Lines], Field(max_length=100)]
    keys: Annotated[dict[_Line, _Lines], Field(max_length=10)]
    aside: _Lines
    unknown: Annotated[dict[_Line, _Line], Field(max_length=100)]


_Name = Annotated[str, Field(max_length=60)]
_Setting = Annotated[str, Field(max_length=8200)]
_Settings = Annotated[dict[_Line, _Setting], Field(max_length=20_000)]


class HostSettings(TypedDict):
    """What a host is set to, by section; which of them it could not read; its own names and addresses."""

    sections: Annotated[dict[_Name, _Settings], Field(max_length=40)]
    unknown: Annotated[dict[_Name, _Line], Field(max_length=40)]
    names: Annotated[list[_Line], Field(max_length=10)]
    addresses: Annotated[list[_Line], Field(max_length=200)]


class Part(TypedDict):
    """A piece of hardware, by what no other has: a serial number, a UUID, a MAC address."""

    id: Annotated[str, Field(min_length=1, max_length=100)]
    words: _Line


class Hardware(TypedDict):
    """Kind → its parts; and of which kinds some or all parts are not known."""

    found: Annotated[
        dict[Literal["chassis", "gpu", "network", "disk"], Annotated[list[Part], Field(max_length=300)]],
        Field(max_length=4),
    ]
    unknown: Annotated[dict[_Name, _Line], Field(max_length=4)]


class Readable(TypedDict):
    path: _Line
    owner: _Line
    mode: Annotated[str, Field(max_length=5)]


class Exposed(TypedDict):
    """Private files that others than their owner can read; and where nobody looked to the end."""

    found: Annotated[list[Readable], Field(max_length=2000)]
    more: Annotated[dict[_Line, Count], Field(max_length=2001)]
    unknown: Annotated[dict[_Line, _Line], Field(max_length=40)]

"""Records of a look at a host: its people, state, disks, backups and images."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, Optional

from .bounds import Count, Line, Pattern, Shown, Size, Stamp, Time, When, Within, Words
from .images import Roots, Switch


@dataclass(frozen=True)
class Announcement:
    """A text that holds from one moment to another, in seconds since the epoch. `closed_from`, `closed_until`: of the
    window that it announces; no grant of a GPU runs into it."""

    id: Annotated[str, Pattern("[a-z0-9-]{1,40}", "an id")]
    begin: int
    end: int
    text: Annotated[str, Shown(8000)]
    closed_from: int = 0
    closed_until: int = 0


@dataclass(frozen=True)
class Power:
    """What keeps a host from being switched off. None: it is not known, and `unknown` says why.

    `clients`: addresses of hosts that mount something from it. `jobs`: of gpuadmin's. `claims`: who has a container or
    a grant there, without being on it.
    """

    people: Optional[list[str]]
    clients: Optional[list[str]]
    jobs: Optional[list[str]]
    unknown: Words
    claims: Optional[list[str]] = None


@dataclass(frozen=True)
class FormerHomes:
    """What is mounted from a storage host that is to serve no more. `answers`: its NFS port does, from here. `held`:
    whose processes have files there, or stand there."""

    answers: bool
    mounts: Annotated[list[Line], Size(1000)] = field(default_factory=list)
    held: Annotated[dict[str, Annotated[list[Line], Size(20)]], Size(1000)] = field(default_factory=dict)


@dataclass(frozen=True)
class Supply:
    """A host as its BMC has it. `answers`: its ssh does, where its BMC was asked from. `problem`: why the state is not
    known, or what kept it from being switched."""

    state: Literal["on", "off", "unknown"]
    answers: bool
    problem: Annotated[str, Shown(1000)] = ""


@dataclass(frozen=True)
class Measured:
    text: str


@dataclass(frozen=True)
class Disk:
    path: str
    mount: str
    bytes: Count
    free: Count


@dataclass(frozen=True)
class Newest:
    """The newest backup: how many homes, and how many of them are verified."""

    name: str
    created: Stamp
    homes: Count
    verified: Count
    problems: Count
    copies: Words
    uncopied: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Image(Roots):
    last: Optional[Switch]
    drift: list[str]


@dataclass(frozen=True)
class Update:
    old: str  # empty: it comes new
    new: str
    security: bool


@dataclass(frozen=True)
class Updates:
    """What would be upgraded. `held`: stays. `reboot`: why it should boot now. `problems`: of the last upgrade."""

    packages: dict[str, Update]
    held: list[str]
    reboot: list[str]
    interrupted: bool
    problems: list[str]


@dataclass(frozen=True)
class Waiting:
    """How many security updates wait, and since when the first of them does."""

    security: Count
    since: Optional[Time]
    reboot: list[str]


@dataclass(frozen=True)
class Status:
    unknown: Words
    disks: dict[str, Disk]
    backup: Optional[Newest] = None
    people: Optional[list[str]] = None
    gpu_people: Optional[list[str]] = None
    gpus: Optional[list[str]] = None
    gpu_gate: Optional[list[str]] = None
    queue: Words = field(default_factory=dict)
    queue_without_gpus: list[str] = field(default_factory=list)
    #: Verb → when its timer's last run ended, and whether it failed; empty if none has ended since the host booted.
    timers: Words = field(default_factory=dict)
    image: Optional[Image] = None
    updates: Optional[Waiting] = None


@dataclass(frozen=True)
class Command:
    status: Annotated[int, Within(-(2**31), 2**31)]
    output: str
    errors: str


@dataclass(frozen=True)
class Directory:
    path: str
    bytes: Count
    inodes: Count


@dataclass
class Held:
    """The room that somebody's files take at one place. `when`: of its oldest figure. `partial`: they take more."""

    bytes: Count
    inodes: Count
    when: When
    partial: bool
    largest: list[Directory]


@dataclass(frozen=True)
class Disks:
    people: dict[str, dict[str, Held]]

"""Records of a host that gpuadmin has no part in yet: within bounds, because anybody may have shaped it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Optional

from .bounds import Line, Lines, Size, Within

Name = Annotated[str, Size(100)]
Names = Annotated[list[Name], Size(5000)]
FewNames = Annotated[list[Name], Size(50)]
#: A uid or a gid, or how many subordinate ids: what 32 bits hold, and more than that only as a mistake of somebody's.
Id = Annotated[int, Within(0, 10**10)]


@dataclass(frozen=True)
class KeptAccount:
    name: Name
    uid: Optional[Id]
    gid: Optional[Id]
    home: Line
    shell: Name
    password: Optional[str]
    expires: Optional[Id]


@dataclass(frozen=True)
class Account(KeptAccount):
    """`closed`: the verb that keeps somebody out until it has ended."""

    password: Optional[Literal["set", "none", "locked", "empty", "missing"]]
    gecos: Line
    closed: Literal["", "renumber", "move-homes"] = ""  # an adoption.json of before does not have it


@dataclass(frozen=True)
class Group:
    name: Name
    gid: Optional[Id]
    members: Names


@dataclass(frozen=True)
class Range:
    """A line of subuid or subgid. `start`: None for one that is not a range."""

    name: Line
    start: Optional[Id]
    count: Optional[Id]


@dataclass(frozen=True)
class Subids:
    subuid: Annotated[list[Range], Size(5000)]
    subgid: Annotated[list[Range], Size(5000)]


@dataclass(frozen=True)
class Elsewhere:
    """An account that this host's files do not have."""

    name: Name
    uid: Id


@dataclass(frozen=True)
class Directory:
    """`sources`: where names come from beside this host's files; `accounts`: those that getent lists of them."""

    sources: Names
    accounts: Annotated[list[Elsewhere], Size(5000)]


@dataclass(frozen=True)
class Link:
    """`leads`: where a link leads. `uid`: the owner of the directory that is there."""

    leads: Line
    uid: Optional[Id]


@dataclass
class Entry:
    """An entry of a directory of homes."""

    name: Name
    kind: Literal["directory", "link", "file", "other", "unknown"]
    uid: Optional[Id]
    owner: Optional[Name]
    mode: Optional[Id]
    problem: Optional[Line]
    link: Optional[Link] = None  # an adoption.json of before does not have it


@dataclass(frozen=True)
class Homes:
    """A directory of homes, and what it is on. `more`: entries that are not told."""

    path: Line
    fstype: Optional[Name]
    source: Optional[Line]
    mounted: bool
    network: bool
    entries: Annotated[list[Entry], Size(5000)]
    more: Id
    problem: Optional[Line]


@dataclass(frozen=True)
class Optioned:
    """A key with options in front of it. `names`: of the options."""

    names: FewNames
    fingerprint: Name


@dataclass
class Keys:
    """A person's public keys. `plain`: lines of those without options. `odd`: lines that are not told, `why` not."""

    plain: Annotated[list[Annotated[str, Size(16384)]], Size(50)]
    options: Annotated[list[Optioned], Size(50)]
    odd: Id
    why: Annotated[list[Name], Size(5)]
    problem: Optional[Line]


@dataclass(frozen=True)
class Used:
    """What shows that accounts are services': units that run as them, and days since the last login."""

    units: Annotated[dict[Name, Name], Size(5000)]
    idle: Optional[Annotated[dict[Name, Id], Size(5000)]]


@dataclass(frozen=True)
class Mounted:
    point: Line
    fstype: Name
    source: Line
    subvolume: Line
    network: bool


@dataclass(frozen=True)
class Export:
    path: Line
    clients: Line


@dataclass(frozen=True)
class Docker:
    """Root's Docker, by the directories that it keeps."""

    data: Line
    containers: Optional[Id]
    volumes: Optional[FewNames]
    volume_count: Optional[Id]
    program: bool
    lingering: Names


@dataclass(frozen=True)
class OnBus:
    address: Name
    name: Name


@dataclass(frozen=True)
class Gpus:
    bus: Annotated[list[OnBus], Size(64)]
    devices: Id
    driver: Optional[Name]
    model: Optional[Name]


@dataclass(frozen=True)
class Services:
    active: Annotated[list[Name], Size(100)]
    repositories: Annotated[list[Name], Size(10)]


@dataclass(frozen=True)
class Rule:
    """A rule of sudo's."""

    key: Line
    words: Line


@dataclass(frozen=True)
class Sshd:
    """`include`: whether sshd reads the directory that gpuadmin writes to."""

    include: bool
    settings: Annotated[dict[Name, Lines], Size(100)]
    problem: Optional[Line]


@dataclass(frozen=True)
class Root:
    """`problems`: what of the root's disk does not fit images."""

    problems: Lines


@dataclass(frozen=True)
class System:
    name: Name
    id: Name
    codename: Name
    family: Optional[Literal["debian"]]
    hostname: Name
    kernel: Name
    python: Name
    systemd: bool
    root: bool


@dataclass(frozen=True)
class Adoption:
    """A host as it is. A part that could not be looked at is None, and `unknown` says why."""

    system: Optional[System]
    accounts: Optional[Annotated[list[Account], Size(5000)]]
    groups: Optional[Annotated[list[Group], Size(5000)]]
    subids: Optional[Subids]
    directory: Optional[Directory]
    homes: Optional[Annotated[list[Homes], Size(20)]]
    keys: Optional[Annotated[dict[Name, Keys], Size(5000)]]
    used: Optional[Used]
    file_systems: Optional[Annotated[list[Mounted], Size(200)]]
    exports: Optional[Annotated[list[Export], Size(200)]]
    docker: Optional[Docker]
    gpus: Optional[Gpus]
    services: Optional[Services]
    sudo: Optional[Annotated[list[Rule], Size(50)]]
    sshd: Optional[Sshd]
    root: Optional[Root]
    unknown: Annotated[dict[Name, Line], Size(100)]


@dataclass(frozen=True)
class KeptKeys:
    """`plain`: a number of each key, by which one that several people have is known; `options`: of one key each."""

    plain: Annotated[list[Id], Size(50)]
    options: Annotated[list[Names], Size(50)]
    odd: Id


@dataclass(frozen=True)
class Kept:
    """What adoption.json keeps of a host for its twin. A part that adopt could not look at is None.

    `sudo`: people who have a rule of it; `images`: whether the root fits; `suite`: its release, by its code name.
    """

    accounts: Optional[Annotated[list[KeptAccount], Size(5000)]]
    groups: Optional[Annotated[list[Group], Size(5000)]]
    subids: Optional[Subids]
    sources: Optional[Names]
    homes: Optional[Annotated[list[Homes], Size(20)]]
    keys: Optional[Annotated[dict[Name, KeptKeys], Size(5000)]]
    active: Optional[Names]
    sudo: Optional[Names]
    include: Optional[bool]
    images: Optional[bool]
    suite: Optional[Name] = None

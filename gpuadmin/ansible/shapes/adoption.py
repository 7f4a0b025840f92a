"""What is reported of a host that gpuadmin has no part in yet: within bounds, because anybody may have shaped it."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

Name = Annotated[str, Field(max_length=100)]
Line = Annotated[str, Field(max_length=400)]
Names = Annotated[list[Name], Field(max_length=5000)]
Lines = Annotated[list[Line], Field(max_length=100)]
#: A uid or a gid, or how many subordinate ids: what 32 bits hold, and more than that only as a mistake of somebody's.
Id = Annotated[int, Field(ge=0, lt=10**10)]


class Account(TypedDict):
    name: Name
    uid: Id | None
    gid: Id | None
    gecos: Line
    home: Line
    shell: Name
    password: Literal["set", "none", "locked", "empty", "missing"] | None
    expires: Id | None
    closed: NotRequired[Literal["", "renumber", "move-homes"]]  # an adoption.json of before does not have it


class Group(TypedDict):
    name: Name
    gid: Id | None
    members: Names


class Range(TypedDict):
    name: Line
    start: Id | None
    count: Id | None


Ranges = Annotated[list[Range], Field(max_length=5000)]


class Subids(TypedDict):
    subuid: Ranges
    subgid: Ranges


class Elsewhere(TypedDict):
    name: Name
    uid: Id


class Directory(TypedDict):
    sources: Names
    accounts: Annotated[list[Elsewhere], Field(max_length=5000)]


class Link(TypedDict):
    """Where a link leads, and who has the directory that is there."""

    leads: Line
    uid: Id | None


class Entry(TypedDict):
    name: Name
    kind: Literal["directory", "link", "file", "other", "unknown"]
    uid: Id | None
    owner: Name | None
    mode: Id | None
    problem: Line | None
    link: NotRequired[Link | None]  # an adoption.json of before does not have it


class Homes(TypedDict):
    path: Line
    fstype: Name | None
    source: Line | None
    mounted: bool
    network: bool
    entries: Annotated[list[Entry], Field(max_length=5000)]
    more: Id
    problem: Line | None


class Optioned(TypedDict):
    names: Annotated[list[Name], Field(max_length=50)]
    fingerprint: Name


class Keys(TypedDict):
    plain: Annotated[list[Annotated[str, Field(max_length=16384)]], Field(max_length=50)]
    options: Annotated[list[Optioned], Field(max_length=50)]
    odd: Id
    why: Annotated[list[Name], Field(max_length=5)]
    problem: Line | None


class Used(TypedDict):
    """What says of accounts that they are services': units that run as them, and days since the last login."""

    units: Annotated[dict[Name, Name], Field(max_length=5000)]
    idle: Annotated[dict[Name, Id], Field(max_length=5000)] | None


class Mounted(TypedDict):
    point: Line
    fstype: Name
    source: Line
    subvolume: Line
    network: bool


class Export(TypedDict):
    path: Line
    clients: Line


class Docker(TypedDict):
    data: Line
    containers: Id | None
    volumes: Annotated[list[Name], Field(max_length=50)] | None
    volume_count: Id | None
    program: bool
    lingering: Names


class OnBus(TypedDict):
    address: Name
    name: Name


class Gpus(TypedDict):
    bus: Annotated[list[OnBus], Field(max_length=64)]
    devices: Id
    driver: Name | None
    model: Name | None


class Services(TypedDict):
    active: Annotated[list[Name], Field(max_length=100)]
    repositories: Annotated[list[Name], Field(max_length=10)]


class Rule(TypedDict):
    key: Line
    words: Line


class Sshd(TypedDict):
    include: bool
    settings: Annotated[dict[Name, Lines], Field(max_length=100)]
    problem: Line | None


class Root(TypedDict):
    problems: Lines


class System(TypedDict):
    name: Name
    id: Name
    codename: Name
    family: Literal["debian", "redhat", "archlinux"] | None
    hostname: Name
    kernel: Name
    python: Name
    systemd: bool
    root: bool


class Adoption(TypedDict):
    """A host as it is. A part that could not be looked at is None, and `unknown` says why."""

    system: System | None
    accounts: Annotated[list[Account], Field(max_length=5000)] | None
    groups: Annotated[list[Group], Field(max_length=5000)] | None
    subids: Subids | None
    directory: Directory | None
    homes: Annotated[list[Homes], Field(max_length=20)] | None
    keys: Annotated[dict[Name, Keys], Field(max_length=5000)] | None
    used: Used | None
    file_systems: Annotated[list[Mounted], Field(max_length=200)] | None
    exports: Annotated[list[Export], Field(max_length=200)] | None
    docker: Docker | None
    gpus: Gpus | None
    services: Services | None
    sudo: Annotated[list[Rule], Field(max_length=50)] | None
    sshd: Sshd | None
    root: Root | None
    unknown: Annotated[dict[Name, Line], Field(max_length=100)]


class KeptAccount(TypedDict):
    name: Name
    uid: Id | None
    gid: Id | None
    home: Line
    shell: Name
    password: str | None
    expires: Id | None


class KeptKeys(TypedDict):
    """`plain`: the number of each key, by which one that several people have is told; `options`: of one key each."""

    plain: Annotated[list[Id], Field(max_length=50)]
    options: Annotated[list[Names], Field(max_length=50)]
    odd: Id


class Kept(TypedDict):
    """A part that adopt could not look at is None. `sudo`: who has a rule of it; `images`: whether the root fits;
    `suite`: its release, by its code name."""

    accounts: Annotated[list[KeptAccount], Field(max_length=5000)] | None
    groups: Annotated[list[Group], Field(max_length=5000)] | None
    subids: Subids | None
    sources: Names | None
    homes: Annotated[list[Homes], Field(max_length=20)] | None
    keys: Annotated[dict[Name, KeptKeys], Field(max_length=5000)] | None
    active: Names | None
    sudo: Names | None
    include: bool | None
    images: bool | None
    suite: NotRequired[Name | None]

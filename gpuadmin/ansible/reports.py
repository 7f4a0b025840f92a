"""What hosts report, parsed: the one schema at the border. Nothing else of gpuadmin sees an answer before this did.

A report says what its readers read of it: those fields are there, of their kind and within bounds. What nobody reads
stays as it is, within the bounds of `too_much`. A report of a name that is not here is not kept.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from gpuadmin.text import counted

DEEPEST = 40
MOST_VALUES = 2_000_000
LARGEST = 2**64  # numbers of inodes, devices and bytes are below
_END = 9000  # the years that dates can be reckoned with end soon after
_NUMBER_NAME = re.compile(r"[0-9]{1,10}")

Count = Annotated[int, Field(ge=0, lt=2**63)]
#: Seconds since 1970, up to the year 9999, which is as far as dates go.
When = Annotated[float, Field(ge=0, lt=253_370_000_000)]
Seconds = Annotated[float, Field(ge=0, lt=1e9)]
Words = dict[str, str]


def _uid_names(found: dict[str, str]) -> dict[str, str]:
    for name in found:
        if not _NUMBER_NAME.fullmatch(name):
            raise ValueError(f"{name[:40]!r} is no uid")
    return found


def _a_time(text: str) -> str:
    then = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")  # its ValueError says the form
    if not 1970 <= then.year < _END:  # days are added to it
        raise ValueError(f"no backup is of the year {then.year}")
    return text


#: 2026-12-21T01:02:03Z
Stamp = Annotated[str, AfterValidator(_a_time)]
Uids = Annotated[dict[str, str], AfterValidator(_uid_names)]


class Person(TypedDict):
    """What was done for one person, or for one thing of theirs. Of thousands nothing else is kept, or looked at."""

    status: str
    operations: NotRequired[list[str]]
    problem: NotRequired[str | None]
    files: NotRequired[Count]
    bytes: NotRequired[Count]
    user: NotRequired[str]


class Home(TypedDict):
    """A home in a backup."""

    uid: Count
    files: Count
    bytes: Count
    checksum: str
    verified: str | bool | None


class Backup(TypedDict):
    name: str
    path: NotRequired[str]
    created: Stamp
    homes: dict[str, Home]
    problems: Words
    copies: Words


class Taken(TypedDict):
    """Which uids a storage host remembers and sees."""

    memory: Uids | None
    seen: Uids
    problem: str | None


class Entry(TypedDict):
    """An entry of the home root."""

    kind: str
    uid: int
    problem: str | None
    of: NotRequired[str | None]


class Scratch(TypedDict):
    user: str
    uid: int
    path: NotRequired[str]


class Scratches(TypedDict):
    items: list[Scratch]
    problems: NotRequired[Words]


class Term(TypedDict):
    """What a reset has to know of a host."""

    processes: dict[str, Count]
    homes: NotRequired[dict[str, Entry]]
    waiting: NotRequired[list[str]]
    backups: NotRequired[list[Backup]]
    scratch: NotRequired[Scratches]
    identities: NotRequired[dict[str, Annotated[int, Field(ge=0, lt=2**32)]]]


class Deleted(TypedDict):
    kept: Count
    words: list[str]
    bytes: Count


class Parent(TypedDict):
    name: str


class Stream(TypedDict):
    parent: Parent | None
    bytes: Count


class Changes(TypedDict):
    added: dict[str, Any]
    removed: dict[str, Any]
    changed: dict[str, Any]


class Manifest(TypedDict):
    name: str
    uuid: str
    created: When
    by: str
    parent: Parent | None
    distribution: str
    version: str
    machine: str
    kernel: str
    size: Count
    packages: dict[str, str]
    changes: Changes
    streams: Annotated[list[Stream], Field(min_length=1)]


class Stored(TypedDict):
    """An image in the store; `manifest` is None where it is not complete."""

    manifest: Manifest | None
    problem: str | None


class Receives(TypedDict):
    bytes: Count
    parent: str | None
    held: bool


class Switch(TypedDict, total=False):
    """The journal of the last switch of a node's root."""

    stage: str
    root: str
    image: str
    reason: str
    time: When
    ended: When
    uptime: Seconds


class Prunable(TypedDict):
    roots: list[str]
    images: list[str]


class NodeImages(TypedDict):
    running: str
    current: str
    trial: str
    image: str | None
    held: dict[str, str]
    confirmed: list[str]
    receives: NotRequired[Receives]
    problem: NotRequired[str | None]
    people: NotRequired[list[str] | None]
    gpu_work: NotRequired[list[str] | None]
    refused: NotRequired[Words]
    last: NotRequired[Switch | None]
    drift: NotRequired[list[str] | None]
    send_version: NotRequired[Annotated[int, Field(ge=1, lt=1000)]]
    prunable: NotRequired[Prunable]
    rollback: NotRequired[str | None]


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


class Diagnosis(TypedDict):
    node: bool
    causes: list[Cause]
    unknown: NotRequired[Words]
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


class Spent(TypedDict, total=False):
    seconds: dict[str, Seconds] | None


People = dict[str, Person]
REPORTS: Mapping[str, Any] = {
    "users": People, "homes": People, "scratch": People, "login_access": People, "sessions": People,
    "problems": list[str], "refused": Words, "uids": Taken, "backup": Backup,
    "deleted": dict[str, Deleted], "facts": Term, "store": dict[str, Stored], "verified": dict[str, list[str]],
    "node": NodeImages, "switch": Spent, "layout": dict[str, Any], "power": Power, "gpus": Gpus,
    "diagnosis": Diagnosis, "docker_restart": str, "measured": Measured, "idle": Idle, "restored": dict[str, Any],
    "status": Status, "command": Command, "cleared": dict[str, Any], "disk": Disks, "pruned": list[str],
}  # fmt: skip
_PEOPLE = TypeAdapter(People, config=ConfigDict(extra="ignore", strict=True))


@cache
def _adapter(name: str) -> TypeAdapter[dict[str, Any]]:
    return TypeAdapter(dict[str, REPORTS[name]], config=ConfigDict(extra="allow", strict=True))  # type: ignore[misc]


class OddError(ValueError):
    """An answer that is not understood; the message says of what, without `its answer is not understood`."""


def parsed(name: str, value: object) -> Any:
    """Given a report's name and what a host says, return it as its readers may take it. Raises OddError."""
    try:
        if REPORTS[name] is People:
            return _PEOPLE.validate_python(value)
        too_much(value, name)
        return _adapter(name).validate_python({name: value})[name]
    except ValidationError as error:
        raise _in_words(name, error) from None


def of_text(name: str, text: object) -> Any:
    """The same for a report that comes as JSON in a text."""
    if not isinstance(text, str):
        raise OddError(f"{name} is no text")
    try:
        if REPORTS[name] is People:
            return _PEOPLE.validate_json(text)  # no thousands of objects on the way, and no tree to walk
        return parsed(name, json.loads(text, parse_constant=float))
    except ValidationError as error:
        raise _in_words(name, error) from None
    except RecursionError:
        raise OddError(f"{name} is nested too deep") from None
    except OddError:
        raise
    except ValueError:
        raise OddError(f"{name} is no JSON") from None


def _in_words(name: str, error: ValidationError) -> OddError:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return OddError(f"{name} is no JSON")
    path = first["loc"] if first["loc"][:1] == (name,) else (name, *first["loc"])
    words = ".".join(str(part)[:60] for part in path)
    return OddError(f"{words[:300]}: {first['msg'][:1].lower()}{first['msg'][1:200]}")


def too_much(value: object, name: str) -> None:
    """Raise OddError where a value is too deep or too large, or has a number that nothing can be reckoned with."""
    level: list[Any] = [value]
    values = 0
    for _ in range(DEEPEST):
        below: list[Any] = []
        for one in level:
            kind = type(one)
            if kind is dict:
                below.extend(one.values())
            elif kind is list:
                below.extend(one)
            elif (kind is float and not math.isfinite(one)) or (kind is int and not -LARGEST < one < LARGEST):
                raise OddError(f"{name} has a number that is none, or too large")
        values += len(below)
        if values > MOST_VALUES:
            raise OddError(f"{name} has more than {counted(MOST_VALUES, 'value')}")
        if not below:
            return
        level = below
    raise OddError(f"{name} is nested too deep")

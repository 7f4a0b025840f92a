"""What is reported of images: the store's, and what nodes hold, run and receive."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from gpuadmin.ansible.shapes.bounds import Count, Seconds, When, Words


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
    """An image in the store; `manifest` is None if it is not complete."""

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


_Busy = TypedDict("_Busy", {"gpu_work": NotRequired[list[str] | None]})  # noqa: UP013  nodes chose the word


class NodeImages(_Busy):
    running: str
    current: str
    trial: str
    image: str | None
    held: dict[str, str]
    confirmed: list[str]
    receives: NotRequired[Receives]
    problem: NotRequired[str | None]
    people: NotRequired[list[str] | None]
    refused: NotRequired[Words]
    last: NotRequired[Switch | None]
    drift: NotRequired[list[str] | None]
    send_version: NotRequired[Annotated[int, Field(ge=1, lt=1000)]]
    prunable: NotRequired[Prunable]
    rollback: NotRequired[str | None]


class Spent(TypedDict, total=False):
    seconds: dict[str, Seconds] | None

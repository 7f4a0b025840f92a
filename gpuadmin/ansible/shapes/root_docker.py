"""What hosts report of root's Docker, and of what was carried out of it (gpuadmin move-docker)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from gpuadmin.common.records.bounds import MOST, Count

_Name = Annotated[str, Field(max_length=300)]
_Line = Annotated[str, Field(max_length=2000)]
_Lines = Annotated[list[_Line], Field(max_length=1000)]
_Told = Annotated[int, Field(ge=-1, lt=MOST)]  # -1: a daemon does not say it


class Container(TypedDict):
    """A container, and the command that makes it again."""

    id: _Name
    name: _Name
    image: _Name
    running: bool
    volumes: Annotated[list[_Name], Field(max_length=100)]
    binds: _Lines
    labels: _Lines
    changes: _Told
    command: Annotated[str, Field(max_length=8000)]
    differs: _Lines


class Image(TypedDict):
    id: _Name
    tags: Annotated[list[_Name], Field(max_length=100)]
    bytes: Count


class Volume(TypedDict):
    """``cannot``: why it cannot be carried."""

    name: _Name
    bytes: _Told
    cannot: _Line


class CarriedVolume(TypedDict):
    step: _Name
    files: Count
    bytes: Count


class Moved(TypedDict):
    """What was carried for somebody, as the host has written it down."""

    name: _Name
    images: dict[_Name, list[_Name]]
    volumes: dict[_Name, CarriedVolume]
    containers: dict[_Name, _Name]


class RootDocker(TypedDict):
    """What root's Docker has on a host."""

    running: bool
    problem: _Line
    containers: Annotated[list[Container], Field(max_length=1000)]
    images: Annotated[list[Image], Field(max_length=1000)]
    volumes: Annotated[list[Volume], Field(max_length=1000)]
    moved: Moved | None


class Part(TypedDict):
    kind: _Name
    name: _Name
    words: _Line


class Carried(TypedDict):
    """What was carried, or removed, and what had a problem."""

    parts: Annotated[list[Part], Field(max_length=4000)]
    problems: dict[_Line, _Line]
    notes: _Lines

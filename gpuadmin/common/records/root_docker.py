"""Records of root's Docker on a host, and of what was carried out of it (gpuadmin move-docker)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Optional

from .bounds import MOST, Count, Size, Within

Name = Annotated[str, Size(300)]
Names = Annotated[list[Name], Size(100)]
Text = Annotated[str, Size(2000)]
Texts = Annotated[list[Text], Size(1000)]
#: -1: a daemon does not say it.
Told = Annotated[int, Within(-1, MOST)]


@dataclass(frozen=True)
class Container:
    """A container, and the command that makes it again."""

    id: Name
    name: Name
    image: Name
    running: bool
    volumes: Names
    binds: Texts
    labels: Texts
    changes: Told
    command: Annotated[str, Size(8000)]
    differs: Texts


@dataclass(frozen=True)
class Image:
    id: Name
    tags: Names
    bytes: Count


@dataclass(frozen=True)
class Volume:
    """`cannot`: why it cannot be carried."""

    name: Name
    bytes: Told
    cannot: Text


@dataclass
class CarriedVolume:
    step: Name
    files: Count
    bytes: Count


@dataclass
class Moved:
    """What was carried for a person. `images`: id → tags; `containers`: id → name."""

    name: Name
    images: dict[Name, list[Name]]
    volumes: dict[Name, CarriedVolume]
    containers: dict[Name, Name]


@dataclass
class RootDocker:
    """What root's Docker has on a host."""

    running: bool
    problem: Text
    containers: Annotated[list[Container], Size(1000)]
    images: Annotated[list[Image], Size(1000)]
    volumes: Annotated[list[Volume], Size(1000)]
    moved: Optional[Moved]


@dataclass(frozen=True)
class Part:
    """A thing that was carried or removed. `words`: what was done with it."""

    kind: Name
    name: Name
    words: Text


@dataclass(frozen=True)
class Carried:
    """What was carried, or removed, and what had a problem."""

    parts: Annotated[list[Part], Size(4000)]
    problems: dict[Text, Text]
    notes: Texts

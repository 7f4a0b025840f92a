"""What a diagnosis of a person's account reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from .bounds import Count, When, Words


@dataclass(frozen=True)
class Clock:
    seconds: When
    service: Optional[str] = None


@dataclass(frozen=True)
class Cause:
    code: str
    cause: str
    remedy: str
    evidence: list[str]


@dataclass(frozen=True)
class Docker:
    data: Optional[dict[str, Any]]


@dataclass(frozen=True)
class Manager:
    manager: Optional[str]


@dataclass(frozen=True)
class Containers:
    asked: bool
    running: Count = 0


@dataclass(frozen=True)
class Key:
    kind: Optional[str]
    problem: Optional[str]


@dataclass(frozen=True)
class Keys:
    keys: list[Key]


@dataclass(frozen=True)
class SiteKeys:
    site: Optional[Keys] = None


@dataclass(frozen=True)
class Step:
    code: str


@dataclass(frozen=True)
class Trial:
    """A session of the person's that was tried."""

    steps: dict[str, Step]
    done: bool


@dataclass(frozen=True)
class Diagnosis:
    node: bool
    causes: list[Cause]
    unknown: Words
    trial: Optional[Trial] = None
    clock: Optional[Clock] = None
    docker: Optional[Docker] = None
    sessions: Optional[Manager] = None
    containers: Optional[Containers] = None
    keys: Optional[SiteKeys] = None

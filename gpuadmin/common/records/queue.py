"""What the queue's controller reports: jobs, nodes and reservations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from .bounds import Count, When


@dataclass(frozen=True)
class Made:
    """An admin has made it, in its person's name."""

    id: str
    who: str
    reason: str


@dataclass(frozen=True)
class Job:
    """A job of the queue. `place`: in the order of those that wait, from 1; 0: it runs. `why`: it waits, in words."""

    id: str
    user: str
    group: str
    gpus: Count
    nodes: str
    place: Count
    asked: Optional[When]
    start: Optional[When]
    end: Optional[When]
    why: str
    exception: Optional[Made] = None


@dataclass(frozen=True)
class QueueNode:
    name: str
    state: str
    reason: str


@dataclass(frozen=True)
class Reservation:
    """Nodes that are somebody's from a time on; `users`: empty where they are of nobody in particular."""

    name: str
    nodes: list[str]
    users: list[str]
    begin: When
    end: When


@dataclass(frozen=True)
class Queue:
    jobs: list[Job]
    nodes: list[QueueNode]
    reservations: list[Reservation] = field(default_factory=list)
    version: Optional[list[Count]] = None

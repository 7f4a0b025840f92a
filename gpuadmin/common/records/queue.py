"""Records of the queue: its jobs, nodes and reservations, and the site's policy for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional

from .bounds import Count, When


@dataclass(frozen=True)
class Made:
    """The admin who made an exception in its person's name, and why."""

    id: str
    who: str
    reason: str


@dataclass(frozen=True)
class Job:
    """A job of the queue. `place`: among those that wait, from 1; 0: it runs. `why`: why it waits."""

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
    """A node as Slurm has it. `gpus`: None where it does not say, or a release before did not ask."""

    name: str
    state: str
    reason: str
    gpus: Optional[Count] = None


#: How the reservation of a window of maintenance is called; the announcement's id follows.
WINDOW = "gpuadmin-window-"


@dataclass(frozen=True)
class Reservation:
    """Nodes that are somebody's from a time on; `users`: empty where they are of nobody in particular."""

    name: str
    nodes: list[str]
    users: list[str]
    begin: When
    end: When

    def command(self, flags: str) -> list[str]:
        """What makes it, on a host that Slurm lets do so."""
        return [
            "scontrol", "create", "reservation", f"ReservationName={self.name}", f"Users={','.join(self.users)}",
            f"Nodes={','.join(self.nodes)}", f"StartTime=uts{self.begin}", f"EndTime=uts{self.end}", f"Flags={flags}",
        ]  # fmt: skip


@dataclass(frozen=True)
class Queue:
    jobs: list[Job]
    nodes: list[QueueNode]
    reservations: list[Reservation] = field(default_factory=list)
    version: Optional[list[Count]] = None


@dataclass(frozen=True)
class Bookable:
    """The bookings that one person may make: `gpus` of one node, for `hours`, to begin within `days` and not
    before `lead` hours, `standing` times."""

    gpus: int
    hours: int
    days: int
    standing: int
    lead: int = 0  # a file of an earlier release has none


@dataclass(frozen=True)
class Group:
    """A group of people. `share`: of what all use, against other groups'. `gpus`: at most so many of one person's
    at once; None: any number. `hours`: the longest job. `queued`: at most so many jobs of one person. `cpus`,
    `memory` (GiB), `nodes`: as `gpus`."""

    name: str
    share: int
    hours: int
    queued: int
    gpus: Optional[int] = None
    cpus: Optional[int] = None
    memory: Optional[int] = None
    nodes: Optional[int] = None


@dataclass(frozen=True)
class Owns:
    """What a group comes first on: ``nodes``, and all with GPUs of ``types``. ``others``: preempted, or never there."""

    group: str
    nodes: Sequence[str] = ()
    types: Sequence[str] = ()
    others: str = "preempted"


@dataclass(frozen=True)
class Policy:
    """`extend`: never, free (while nobody waits) or always. `hours`: the longest job, by group of people.

    `limits`: by group, for whoever asks for more to read: Slurm keeps them. `idle_hours`, `idle_notice`: after how many
    hours whoever does not use a GPU is told, and how many later its job ends (0: it does not); `idle_exempt`: not them.
    `book`: by group; people of other
    groups book nothing. `booked`: at most so many GPUs are booked at one time, in percent of the queue's.
    """

    extend: str
    hours: Mapping[str, int]
    book: Mapping[str, Bookable] = field(default_factory=dict)
    booked: int = 0
    limits: Mapping[str, Group] = field(default_factory=dict)
    idle_hours: int = 0
    idle_notice: int = 0
    idle_exempt: Sequence[str] = ()

"""Bookings: a node of the queue for one person from a time on. Each is a reservation of Slurm's, and nothing else.

It is of a whole node: Slurm 24.11 takes all cores of a node for any of its GPUs. Only operators may make one, so a
service of the node does it (extend_service.py), within the site's policy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuadmin.common.records import queue as records
from gpuadmin.common.records.queue import Policy

from ..errors import NodeError
from ..run import run
from . import partitions, queue
from .policy import RefusedError

#: What a booking is called: this, its person, and which of theirs it is. Slurm gives no name twice, so asking two nodes
#: at once makes no more bookings than one may have.
NAME = "gpu-book-{0}-{1}"
HOUR, DAY = 3600, 86400
#: Minutes after which a booking that nobody uses ends.
UNUSED = 30
#: In words, which all releases have: operators alone write what is in them.
RESERVATIONS = ("scontrol", "--oneliner", "show", "reservation")
_ONE = re.compile(r"ReservationName=(\S+) StartTime=(\d+) EndTime=(\d+) .*?\bNodes=(\S+) .*?\bUsers=(\S+)")
_NONE = "No reservations in the system"


@dataclass(frozen=True)
class Reservation(records.Reservation):
    """A reservation, and whose booking it is."""

    def number(self, user: str) -> int | None:
        """Which of somebody's bookings this is; None where it is none of theirs."""
        head = NAME.format(user, "")
        number = queue.number(self.name[len(head) :]) if self.name.startswith(head) else None
        return number if list(self.users) == [user] else None

    @property
    def window(self) -> bool:
        """Whether it holds a window of maintenance (gpuadmin maintain)."""
        return self.name.startswith(records.WINDOW)

    @property
    def booked(self) -> bool:
        """Whether it is a booking, and not what an admin made by hand."""
        return any(self.number(one) is not None for one in self.users)


def reservations() -> list[Reservation]:
    """All of Slurm's, in their order. Raises NodeError, also for an answer that is not understood."""
    found = _read(queue.ask(RESERVATIONS))
    if found is None:  # guard: a reservation that is not understood is not left out
        raise NodeError("scontrol's answer on reservations is not understood")
    return sorted(found, key=lambda one: (one.begin, one.name))


def _read(text: str) -> list[Reservation] | None:
    found = []
    for line in [one for one in text.splitlines() if one.strip()]:
        match = _ONE.match(line)
        if match is None and line.strip() != _NONE:
            return None
        if match:
            name, begin, end, nodes, users = match.groups()
            found.append(Reservation(name, _several(queue.names(nodes)), _several(users), int(begin), int(end)))
    return found if text.strip() else None


def _several(text: str) -> list[str]:
    return [] if text == "(null)" else text.split(",")


def book(user: str, gpus: int, hours: int, begin: int, node: str, policy: Policy, now: float) -> str:
    """Book a node for somebody. ``gpus``: at least so many; ``node``: empty: any. Raises RefusedError, NodeError."""
    queue.alive()
    group = find_group(user)
    allowed = policy.book.get(group)
    if allowed is None:  # guard: nobody books where the site says nothing of it
        raise RefusedError("no-booking")
    if hours > allowed.hours:  # guard: no booking is longer than the site allows
        raise RefusedError(f"book-long {allowed.hours}")
    if begin < now:
        raise RefusedError("past")
    # a booking that nobody uses ends; whoever made it could book again at once, and keep a node from everybody
    if begin < now + allowed.lead * HOUR:  # guard: who does not use a booking cannot have the next one at once
        raise RefusedError(f"soon {allowed.lead}")
    if begin > now + allowed.days * DAY:  # guard: nobody books further ahead than the site allows
        raise RefusedError(f"ahead {allowed.days}")
    there, counts = reservations(), queue.counts(queue.ask(queue.TYPES))
    mine = [one.number(user) for one in there if one.number(user) is not None]
    if len(mine) >= allowed.standing:  # guard: nobody has more bookings than the site allows
        raise RefusedError(f"standing {allowed.standing}")
    if node and node not in counts:  # guard: only a node that Slurm has named is booked
        raise RefusedError(f"no-node {node}")
    fitting = [one for one, number in counts.items() if number >= gpus and node in ("", one)]
    # guard: nobody books a node with more GPUs than the site allows -> fitting
    candidates = [one for one in fitting if counts[one] <= allowed.gpus]
    owners = partitions.look_owned().owners
    # guard: nobody books a node that another group comes first on -> candidates
    candidates = [one for one in candidates if owners.get(one) in (None, group)]
    if not candidates:
        raise RefusedError(f"book-many {allowed.gpus}")
    number = next(one for one in range(1, allowed.standing + 1) if one not in mine)
    name, end = NAME.format(user, number), begin + hours * HOUR
    why = "taken"
    for one in sorted(candidates, key=lambda one: (counts[one], one)):
        mark = Reservation(name, [one], [user], begin, end)
        # guard: bookings leave others the part of the queue that the site says
        if not _leaves_enough([*there, mark], counts, policy.booked, mark):
            why = f"full {policy.booked}"
            continue
        try:
            run(mark.command(f"PURGE_COMP={UNUSED}:00"))
        except NodeError as error:
            if "busy" not in str(error) and "Duplicate" not in str(error):
                raise
            continue
        # another one was made meanwhile, by another node
        # guard: bookings that are made at once leave others as much -> False
        if not _leaves_enough(reservations(), counts, policy.booked, mark):
            run(["scontrol", "delete", f"ReservationName={name}"])
            raise RefusedError(f"full {policy.booked}")
        return f"booked {number} {one} {counts[one]} {begin} {end}"
    raise RefusedError(why)


def _leaves_enough(there: Sequence[Reservation], counts: Mapping[str, int], percent: int, asked: Reservation) -> bool:
    """Whether at no time of what is asked for more GPUs are booked than ``percent`` of all."""
    bookings = [one for one in there if one.booked and one.begin < asked.end and asked.begin < one.end]
    return all(
        sum(counts.get(node, 0) for one in bookings if one.begin <= moment < one.end for node in one.nodes) * 100
        <= sum(counts.values()) * percent
        for moment in {max(one.begin, asked.begin) for one in bookings}
    )


def cancel(user: str, number: int) -> str:
    """Give a booking of somebody's back. Raises RefusedError, NodeError."""
    queue.alive()
    # guard: a booking is given back by whoever has it alone -> reservations()
    mine = [one for one in reservations() if one.number(user) == number]
    if not mine:
        raise RefusedError(f"not-booked {number}")
    if any(one["booking"] == mine[0].name and not one["waits"] for one in queue.ask_jobs()):
        raise RefusedError(f"in-use {number}")
    run(["scontrol", "delete", f"ReservationName={mine[0].name}"])
    return f"unbooked {number}"


def find_group(user: str) -> str:
    """The group of somebody whose name is valid, as slurmctld knows it. Raises RefusedError, NodeError."""
    said = queue.ask(("scontrol", "show", "assoc_mgr", f"users={user}", "flags=users"))
    found = re.search(rf"(?m)^UserName={re.escape(user)}\(\d+\) DefAccount=(\S+) ", said)
    if found is None:
        raise RefusedError("unknown")
    return found[1]

"""What `gpu book` does, and how `gpu get` uses what its person has booked. It runs as whoever calls it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..errors import NodeError
from ..lookup import find_name
from . import booking, queue
from .booking import Reservation
from .extend_service import ask
from .gpu_words import Asked, clock, print_answer
from .texts import ASKED

#: Seconds of a booking below which nothing is begun in it.
LEAST = 120


def book(asked: Asked) -> int:
    """Book, give a booking back, or show one's own."""
    words = ASKED[asked.language]
    if asked.cancel:
        return print_answer(ask(f"cancel {asked.cancel}"), words)
    if asked.at is None:
        mine = own(booking.reservations())
        print("\n".join(lines(mine, asked.language)) or words["no-bookings"])
        return 0
    request = f"book {asked.gpus} {asked.hours or 1} {asked.at} {asked.node}".strip()
    return print_answer(ask(request), words)


def own(found: Sequence[Reservation]) -> list[Reservation]:
    user = find_name(os.getuid())
    return [one for one in found if user is not None and one.number(user) is not None]


def windows(language: str) -> list[str]:
    """A line for each window of maintenance; nothing where Slurm does not say."""
    try:
        return lines([one for one in booking.reservations() if one.window], language)
    except NodeError:
        return []


def lines(found: Sequence[Reservation], language: str) -> list[str]:
    """A line for each: whose it is, which node, from when until when."""
    words, user = ASKED[language], find_name(os.getuid())
    result = []
    for one in found:
        number = None if user is None else one.number(user)
        who = words["yours"].format(number) if number else ", ".join(one.users) or one.name
        kind = "window" if one.window else "line"
        result.append(words[kind].format(who, ", ".join(one.nodes), clock(one.begin), clock(one.end)))
    return result


def usable(asked: Asked, type: str, now: float) -> Reservation | None:
    """The booking of whoever asks that runs now and still has what they ask for; the one that ends last."""
    try:
        mine = [one for one in own(booking.reservations()) if one.begin <= now and one.end - now > LEAST]
        if not mine:
            return None
        there = queue.ask(queue.TYPES)
        has, kinds, jobs = queue.counts(there), queue.kinds(there), queue.ask_jobs()
    except NodeError:  # without it they wait as everybody does
        return None
    fitting = []
    for one in mine:
        used = sum(job["gpus"] for job in jobs if job["booking"] == one.name)
        free = [node for node in one.nodes if asked.node in ("", node) and (not type or type in kinds.get(node, ()))]
        if free and sum(has.get(node, 0) for node in free) - used >= asked.gpus:
            fitting.append(one)
    return max(fitting, key=lambda one: one.end, default=None)


def minutes(asked: Asked, found: Reservation | None, now: float) -> int:
    """How long the job may take: as long as the booking, where nothing else is asked for."""
    if found is None:
        return 60 * (asked.hours or 1)
    left = int(found.end - now) // 60
    return min(60 * asked.hours or left, left)

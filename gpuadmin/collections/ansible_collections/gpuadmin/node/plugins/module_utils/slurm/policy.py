"""What people may ask of the queue that only operators may do: the site's policy, as `provision` writes it on nodes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import NodeError
from ..paths import STATE

PATH = os.path.join(STATE, "queue-policy.json")


class RefusedError(NodeError):
    """It is not done; ``str(error)`` is the word for why, and its values: texts.ASKED has the sentences."""


@dataclass(frozen=True)
class Bookable:
    """What one person may book: ``gpus`` of one node, for ``hours``, to begin within ``days`` and not
    before ``lead`` hours, ``standing`` times."""

    gpus: int
    hours: int
    days: int
    standing: int
    lead: int = 0  # a file of an earlier release has none


@dataclass(frozen=True)
class Group:
    """A group of people. ``share``: of what all use, against other groups'. ``gpus``: at most so many of one person's
    at once; None: any number. ``hours``: the longest job. ``queued``: at most so many jobs of one person. ``cpus``,
    ``memory`` (GiB), ``nodes``: as ``gpus``."""

    name: str
    share: int
    hours: int
    queued: int
    gpus: int | None = None
    cpus: int | None = None
    memory: int | None = None
    nodes: int | None = None


@dataclass(frozen=True)
class Policy:
    """``extend``: never, free (while nobody waits) or always. ``hours``: the longest job, by group of people.

    ``limits``: by group, for whoever asks for more to read: Slurm keeps them. ``book``: by group; who is in none of
    these books nothing. ``booked``: at most so many GPUs are booked at one time, in percent of the queue's.
    """

    extend: str
    hours: Mapping[str, int]
    book: Mapping[str, Bookable] = field(default_factory=dict)
    booked: int = 0
    limits: Mapping[str, Group] = field(default_factory=dict)


def policy_of(text: bytes | None) -> Policy:
    """What the site says. Raises NodeError."""
    try:
        found = json.loads(text or b"")
        # a file of an earlier release allows no bookings
        book = {str(name): Bookable(**one) for name, one in found.get("book", {}).items()}
        hours = {str(name): int(most) for name, most in found["hours"].items()}
        limits = {str(name): Group(**one) for name, one in found.get("limits", {}).items()}
        return Policy(str(found["extend"]), hours, book, int(found.get("booked", 0)), limits)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NodeError(f"{PATH} is not what gpuadmin provision writes") from None

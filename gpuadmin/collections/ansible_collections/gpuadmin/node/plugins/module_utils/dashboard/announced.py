"""What is announced now, by the file that this host has its announcements in. A damaged file announces nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import NodeError
from ..logins.announcements import load


@dataclass(frozen=True)
class Announced:
    """A text, and the last moment at which it holds (seconds since 1970)."""

    text: str
    end: float


def announced(path: str, now: float) -> Sequence[Announced]:
    """Those that hold at that moment, the one that ends first at the top."""
    try:
        found = load(path) if path else []
    except (NodeError, OSError):
        return ()
    rows = [Announced(_plain(one.text), one.end - 1) for one in found if one.begin <= now < one.end]
    return sorted(rows, key=lambda one: (one.end, one.text))


def _plain(text: str) -> str:
    """A text without what marks it among the lines of a login: `*** the cluster: `."""
    return re.sub(r"(?m)^\*\*\* [^:\n]{1,200}: ", "", text)

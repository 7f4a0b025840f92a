"""What is announced now, by the file that this host has its announcements in. A damaged file announces nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .files import read_bytes


@dataclass(frozen=True)
class Announced:
    """A text, and the last moment at which it holds (seconds since 1970)."""

    text: str
    end: float


def announced(path: str, now: float) -> Sequence[Announced]:
    """Those that hold at that moment, the one that ends first at the top."""
    try:
        entries = json.loads((read_bytes(path) if path else None) or b"[]")
        rows = [
            Announced(_strip_login_marks(str(one["text"])), int(one["end"]) - 1)
            for one in entries
            if int(one["begin"]) <= now < int(one["end"])
        ]
    except (OSError, ValueError, TypeError, KeyError):
        return ()
    return sorted(rows, key=lambda one: (one.end, one.text))


def _strip_login_marks(text: str) -> str:
    """A text without what marks it among the lines of a login: `*** the cluster: `."""
    return re.sub(r"(?m)^\*\*\* [^:\n]{1,200}: ", "", text)

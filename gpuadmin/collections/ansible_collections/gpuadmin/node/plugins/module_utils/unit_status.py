"""How a unit of ours says what it has done."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

SETTLE = 3.0  # seconds until what systemd was told is in force: it answers before


@dataclass
class Outcome:
    """``done``: a sentence each. ``problems``: what is not as it should be, and why."""

    done: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def print_outcome(done: Sequence[str], problems: Sequence[str]) -> int:
    """Print what a unit has done and what went wrong. Returns its status."""
    for line in done:
        print(line)
    for problem in problems:
        print(f"Error: {problem}", file=sys.stderr)
    return 1 if problems else 0

"""How a unit of ours says what it has done."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def said(done: Sequence[str], problems: Sequence[str]) -> int:
    """Print what a unit has done and what went wrong. Returns its status."""
    for line in done:
        print(line)
    for problem in problems:
        print(f"Error: {problem}", file=sys.stderr)
    return 1 if problems else 0

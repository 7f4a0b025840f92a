"""A rule that holds for many files, as one test: which of them break it, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T", Path, str)


def find_offenders(items: Iterable[T], check: Callable[[T], None]) -> dict[str, str]:
    """Given files or names, and a function that asserts something of one, return those that break it, and its words."""
    found = {}
    for item in items:
        try:
            check(item)
        except AssertionError as error:
            name = str(item.relative_to(ROOT)) if isinstance(item, Path) else item
            found[name] = str(error).partition("\n")[0]
    return found

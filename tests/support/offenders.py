"""A rule that holds for many files, as one test: which of them break it, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")


def each_of(items: Iterable[T]) -> Callable[[Callable[[T], None]], Callable[[], None]]:
    """Given items, make a test of one of them the test of all, which fails with a line for each that breaks the rule.

    For example, `@each_of(ROLES)` above `def test_x(role)` fails with `homes_client: assert 4 == 5`.
    """

    def make(check: Callable[[T], None]) -> Callable[[], None]:
        def test() -> None:
            offenders = find_offenders(items, check)
            assert not offenders, "\n".join(f"{name}: {why}" for name, why in offenders.items())

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return make


def find_offenders(items: Iterable[Any], check: Callable[[Any], None]) -> dict[str, str]:
    """Given files, names or what has a name, and a check of one, return those that break the rule, each with how."""
    found = {}
    for item in items:
        try:
            check(item)
        except AssertionError as error:
            name = item.relative_to(ROOT) if isinstance(item, Path) else getattr(item, "name", item)
            found[str(name)] = str(error).partition("\n")[0]
    return found

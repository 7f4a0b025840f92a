"""What tests put in place of a function: one that fails, always or for some of what it is given."""

from collections.abc import Callable
from typing import Any

import pytest


def raising(error: BaseException) -> Callable[..., Any]:
    """Given an error, return a function that raises it, whatever it is given."""

    def fail(*_given: object, **_more: object) -> None:
        raise error

    return fail


def fail_for(
    patch: pytest.MonkeyPatch, place: Any, name: str, chosen: Callable[..., object], error: BaseException
) -> None:
    """Have ``place.name`` raise the error for the arguments that are chosen, and do as ever for all others."""
    real = getattr(place, name)

    def fail(*given: Any, **more: Any) -> Any:
        if chosen(*given, **more):
            raise error
        return real(*given, **more)

    patch.setattr(place, name, fail)

"""Amounts of a person: how much of their home and of Docker's data they may have, and have. Nothing is counted here."""

from __future__ import annotations

from typing import Any

from ..limits import amounts
from .subject import Subject


def own(subject: Subject) -> dict[str, Any] | None:
    """Amounts by place (home, docker): bytes, most, held, when, partial. None: none is known.

    Root of a node may not read what the storage host says of a home, which says it itself. Raises NodeError.
    """
    name = str(subject.name)
    state = subject.path(subject.state)
    told = amounts.load(state)
    found = {
        amounts.HOME: amounts.of_home(subject.path(subject.homes), name),
        amounts.DOCKER: None if told is None else amounts.of_docker(told, name, state),
    }
    return {place: vars(used) for place, used in found.items() if used is not None} or None

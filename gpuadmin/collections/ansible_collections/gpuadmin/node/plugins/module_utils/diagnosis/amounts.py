"""How much somebody may have, and has, of their home, Docker's data and scratch. Nothing is counted here."""

from __future__ import annotations

from typing import Any

from ..limits import amounts
from .subject import Subject


def own(subject: Subject) -> dict[str, Any] | None:
    """Amounts by place (home, docker, scratch): bytes, most, held, when, partial. None: none is known.

    Root of a node may not read what the storage host says of a home, which says it itself. Raises NodeError.
    """
    name = str(subject.name)
    state = subject.path(subject.state)
    told = amounts.load(state)
    found = {amounts.HOME: amounts.of_home(subject.path(subject.homes), name)}
    if told is not None:
        found |= {place: amounts.of_node(told, place, name, state) for place in (amounts.DOCKER, amounts.SCRATCH)}
    return {place: vars(used) for place, used in found.items() if used is not None} or None

"""Grants of people who may not log in any more end with their account's lock or removal. An unlock brings none back."""

from __future__ import annotations

import time
from collections.abc import Collection

from ..files import flocked
from . import grants, reconcile, telling
from .grants import Grant


def found(names: Collection[str], places: telling.Places) -> list[Grant]:
    """The grants of these people that have not ended. One that cannot be read opens nothing."""
    return [one for one in grants.read(places.state, places.run)[0] if one.user in names]


def end(names: Collection[str], places: telling.Places) -> list[str]:
    """End all of them, and close their GPUs at once. Returns what is wrong then. Raises NodeError."""
    with flocked(reconcile.lock_path(places)):  # guard: grants of who leaves end while nobody else changes any
        problems = grants.delete([one.id for one in found(names, places)], places.state, places.run)
        outcome = reconcile.under_lock(places, time.time(), whole=False)
    # under_lock tries the deletion again, and says itself what is still there
    return outcome.problems or problems

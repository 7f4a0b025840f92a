"""Who is being renumbered, or has their homes moved: their accounts are left alone until that has ended."""

from __future__ import annotations

import json
import os
from typing import Any

from ..errors import NodeError
from ..files import read_bytes

PLAN = "renumber/plan.json"  # in the state; the take-over writes it: node/renumbering/journal.py


def renumbered(state: str) -> dict[str, str]:
    """Their names, and the verb that keeps them out.

    Raises NodeError for a plan that is damaged: whose account is closed for it is not known.
    """
    return {str(name): verb for verb, one in _people(state) for name in (one["name"], one.get("was")) if name}


def find_old_ids(state: str) -> dict[int, str]:
    """Ids that files of theirs may still have, here or on another host, and whose they were, in words. Raises NodeError
    as ``renumbered`` does."""
    return {
        one[key]: f"uid {one[key]} was {one['name']}'s until gpuadmin {verb}, which has not ended: "
        "a file may still have it"
        for verb, one in _people(state)
        for key in ("group", "old")
        if one.get(key) not in (None, one.get("new"))
    }


def _people(state: str) -> list[tuple[str, dict[str, Any]]]:
    """The verb, and a person, for each that the plan has."""
    path = os.path.join(state, PLAN)
    data = read_bytes(path)
    try:
        raw = {"people": ()} if data is None else json.loads(data)
        return [(str(raw.get("verb", "renumber")), {**one, "name": one["name"]}) for one in raw["people"]]
    except (ValueError, KeyError, TypeError) as error:
        raise NodeError(f"{path} is damaged ({error}): it says who has which ids by now; nothing was changed") from None

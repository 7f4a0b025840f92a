"""Who is being renumbered on a host: their accounts are left alone until that has ended."""

from __future__ import annotations

import json
import os

from ..errors import NodeError
from ..files import read_bytes

PLAN = "renumber/plan.json"  # in the state; renumbering/journal.py writes it


def renumbered(state: str) -> frozenset[str]:
    """Their names. Raises NodeError for a plan that is damaged: whose account is closed for it is not known."""
    path = os.path.join(state, PLAN)
    data = read_bytes(path)
    try:
        return frozenset() if data is None else frozenset(str(one["name"]) for one in json.loads(data)["people"])
    except (ValueError, KeyError, TypeError) as error:
        raise NodeError(f"{path} is damaged ({error}): it says who has which ids by now; nothing was changed") from None

"""Who is being renumbered, or has their homes moved: their accounts are left alone until that has ended."""

from __future__ import annotations

import json
import os

from ..errors import NodeError
from ..files import read_bytes

PLAN = "renumber/plan.json"  # in the state; the take-over writes it: node/renumbering/journal.py


def renumbered(state: str) -> dict[str, str]:
    """Their names, and the verb that keeps them out.

    Raises NodeError for a plan that is damaged: whose account is closed for it is not known.
    """
    path = os.path.join(state, PLAN)
    data = read_bytes(path)
    try:
        if data is None:
            return {}
        raw = json.loads(data)
        verb = str(raw.get("verb", "renumber"))
        return {str(name): verb for one in raw["people"] for name in (one["name"], one.get("was")) if name}
    except (ValueError, KeyError, TypeError) as error:
        raise NodeError(f"{path} is damaged ({error}): it says who has which ids by now; nothing was changed") from None

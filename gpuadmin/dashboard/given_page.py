"""What admins gave to people in the last days, what is over included: everybody could see it while it held. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..common.given import DAY, STEP, merge_given
from ..common.prometheus import Series
from .snapshot import Snapshot

DAYS = 30


def choose_span(now: float) -> tuple[float, float]:
    """The moments to ask for: who asks a minute later asks the same."""
    end = now // STEP * STEP
    return end - DAYS * DAY, end


def given_page(found: Sequence[Series], end: float, look: Snapshot) -> dict[str, Any]:
    """Given the answer to queries.GIVEN, return its rows, the newest first, of nodes that the site still has."""
    rows = [one for one in merge_given(found, end) if look.node(one.node) is not None]
    return {"days": DAYS, "rows": rows, "now": end}

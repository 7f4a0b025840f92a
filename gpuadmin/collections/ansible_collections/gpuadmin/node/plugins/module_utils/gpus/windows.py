"""Windows of maintenance that are announced on this node: grants end before they begin."""

from __future__ import annotations

import json
import os

from ..errors import NodeError
from ..files import read_bytes

FILE = "announcements.json"


def find_end(state: str, begin: int, until: int) -> int:
    """When something that begins then has to end: at the next window, if it would run into one; else ``until``."""
    try:
        found = json.loads(read_bytes(os.path.join(state, FILE)) or b"[]")
        windows = [(int(one["closed_from"]), int(one["closed_until"])) for one in found if one.get("closed_until")]
    except (NodeError, OSError, ValueError, LookupError, TypeError, AttributeError):
        return until  # what is not known takes nobody's GPU
    # guard: no grant runs into a window -> until
    return min([max(first, begin) for first, last in windows if first < until and begin < last], default=until)

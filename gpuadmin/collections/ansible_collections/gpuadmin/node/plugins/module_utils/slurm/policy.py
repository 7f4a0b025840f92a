"""What people may ask of the queue that only operators may do: the site's policy, as `provision` writes it on nodes."""

from __future__ import annotations

import json
import os

from gpuadmin.common.records.queue import Policy

from ..documents import parse_settings
from ..errors import NodeError
from ..paths import STATE

PATH = os.path.join(STATE, "queue-policy.json")


class RefusedError(NodeError):
    """It is not done; ``str(error)`` is the word for why, and its values: texts.ASKED has the sentences."""


def read_policy(text: bytes | None) -> Policy:
    """What the site says. Raises NodeError."""
    try:
        return parse_settings(Policy, json.loads(text or b""), PATH)
    except (NodeError, ValueError):
        raise NodeError(f"{PATH} is not what gpuadmin provision writes") from None

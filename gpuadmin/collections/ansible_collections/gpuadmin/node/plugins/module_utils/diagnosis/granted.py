"""Grants of the GPUs of a node, for a diagnosis and for whoever asks: they are no secret."""

from __future__ import annotations

import time
from typing import Any

from ..bounded import short
from ..gpus.device_files import gpus
from ..gpus.gate import SETTINGS
from ..gpus.grants import in_force
from ..paths import RUN
from .subject import Subject


def granted(subject: Subject) -> dict[str, Any] | None:
    """``gpus``: how many there are. ``grants``: whose, which GPUs (places, as nvidia-smi counts them; a MIG device by
    its UUID), until when, by whom, why. None where GPUs are open to everybody.

    Raises NodeError or OSError where that is not known.
    """
    if not subject.node:
        return None
    found = in_force(time.time(), subject.path(subject.state), subject.path(SETTINGS), subject.path(RUN))
    if found is None:
        return None
    settings, grants = found
    there = [name for name in gpus(settings, subject.root) if not name.startswith("MIG-")]
    return {
        "gpus": len(there),
        "grants": [
            {
                "user": short(one.user), "until": one.until, "who": short(one.who), "reason": short(one.reason),
                "gpus": [str(there.index(gpu)) if gpu in there else gpu for gpu in one.gpus],
            }
            for one in grants
        ],
    }  # fmt: skip

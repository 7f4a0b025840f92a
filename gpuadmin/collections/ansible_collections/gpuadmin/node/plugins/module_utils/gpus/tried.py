"""Whether the gate is closed, as it was last tried. Written by the reconciler, read by whoever asks how the node is.

It is kept until the next boot: what was tried before one says nothing after it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence

from ..errors import NodeError, in_words
from ..files import read_bytes, write_atomic
from ..paths import RUN
from . import gate

RECORD = "gpu-gate-tried.json"
UNIT = "gpuadmin-gpu-gate.service"
LATE = 300.0  # seconds; the timer starts the unit every minute


def _clock() -> float:
    """Seconds since boot: nobody puts this clock back."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def write(problems: Sequence[str], run: str = RUN) -> None:
    """Keep what a trial has found."""
    found = {"seconds": _clock(), "problems": list(problems)}
    write_atomic(os.path.join(run, RECORD), json.dumps(found, indent=1).encode() + b"\n", mode=0o644, sync=False)


def problems(root: str = "/", now: float | None = None) -> list[str] | None:
    """Why GPUs may be open to people who were not granted one; None where they are open to everybody by intent."""
    try:
        if gate.read(os.path.join(root, gate.SETTINGS.lstrip("/"))).access == "open":
            return None
        kept = read_bytes(os.path.join(root, RUN.lstrip("/"), RECORD))
        if kept is None:  # guard: a gate that nobody tried is not called closed
            return [f"whether the GPUs' gate is closed was not tried since the boot: systemctl status {UNIT}"]
        found = json.loads(kept)
        age = (_clock() if now is None else now) - float(found["seconds"])
        late = [f"the GPUs' gate was last tried {age / 60:.0f} minutes ago: systemctl status {UNIT}"]
        return [
            *(late if age > LATE else []),  # guard: a gate that was closed once is not called closed for ever
            *map(str, found["problems"]),
        ]
    except (NodeError, OSError) as error:
        return [f"whether the GPUs' gate is closed is not known: {in_words(error)}"]
    except (ValueError, LookupError, TypeError):
        return [f"whether the GPUs' gate is closed is not known: {RECORD} is damaged"]

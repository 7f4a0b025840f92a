"""What is granted on a host where people open only that: the gate's settings and its grants, read together."""

from __future__ import annotations

from ..errors import NodeError
from ..paths import RUN, STATE
from . import gate, grants
from .gate import Settings
from .grants import Grant


def in_force(
    now: float, state: str = STATE, settings: str = gate.SETTINGS, run: str = RUN
) -> tuple[Settings, list[Grant]] | None:
    """The settings, and the grants that have not ended; None where GPUs are open to everybody.

    Raises NodeError where not all of it can be read, and OSError.
    """
    found = gate.read(settings)
    if found.access != "granted":
        return None
    listed, problems = grants.read(state, run)
    if problems:  # guard: a grant that cannot be read ends nobody's work
        raise NodeError(problems[0])
    return found, [one for one in listed if now < one.until]

"""Let nodes take jobs of the queue again."""

from __future__ import annotations

from collections.abc import Sequence

from gpuadmin.actions.shared.queue import change
from gpuadmin.options import Options
from gpuadmin.session import opened


def resume(options: Options, nodes: Sequence[str]) -> int:
    """Returns the exit code."""
    with opened("resume", options) as session:
        return change(session, nodes, {"reason": "", "resume": True})

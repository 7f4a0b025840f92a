"""Switch hosts off: nodes before storage, and storage only when nobody mounts it."""

from __future__ import annotations

from collections.abc import Sequence

from gpuadmin.actions.shared.power import PowerRequest, switch
from gpuadmin.options import Options


def shutdown(
    options: Options, patterns: Sequence[str], *, when_idle: bool, at: str | None, force: bool, idle: int | None,
    place: str | None,
) -> int:  # fmt: skip
    """Switch off the hosts that the patterns name, or `idle` nodes of them. Returns the exit code."""
    return switch(options, PowerRequest("shutdown", tuple(patterns), when_idle, at, force, idle, place))

"""Reboot hosts: nodes let the homes go before their server does, and come back after it."""

from __future__ import annotations

from collections.abc import Sequence

from gpuadmin.actions.shared.power import PowerRequest, switch
from gpuadmin.options import Options


def reboot(options: Options, patterns: Sequence[str], *, when_idle: bool, at: str | None, force: bool) -> int:
    """Reboot the hosts that the patterns name. Returns the exit code."""
    return switch(options, PowerRequest("reboot", tuple(patterns), when_idle, at, force))

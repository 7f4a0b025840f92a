"""Set until when accounts are valid."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from gpuadmin.actions.shared.accounts import update
from gpuadmin.options import Options


def extend_user(options: Options, names: Sequence[str], until: date | None) -> int:
    """Let accounts be valid until that day, or without an end. Returns the exit code."""
    validity = "without an end" if until is None else f"valid until {until}"
    return update("extend-user", options, names, {"expires": until}, action=lambda user: f"{user.name}: {validity}")

"""Let locked people log in again."""

from __future__ import annotations

from collections.abc import Sequence

from gpuadmin.actions.shared.accounts import update
from gpuadmin.options import Options


def unlock_user(options: Options, names: Sequence[str]) -> int:
    """Unlock people, in users.yml and on every host. Returns the exit code."""
    return update(
        "unlock-user", options, names, {"locked": False}, action=lambda user: f"{user.name}: allow logins again"
    )

"""Stop people from logging in."""

from __future__ import annotations

from collections.abc import Sequence

from gpuadmin.accounts.requests import refuse_protected
from gpuadmin.actions.shared.accounts import update
from gpuadmin.options import Options


def lock_user(options: Options, names: Sequence[str]) -> int:
    """Lock people, in users.yml and on every host. Returns the exit code."""
    return update(
        "lock-user",
        options,
        names,
        {"locked": True},
        before=lambda session: refuse_protected(session.site.settings, names, "lock-user"),
        action=lambda user: f"{user.name}: refuse every login from now on",
    )

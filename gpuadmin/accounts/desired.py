"""What hosts receive about people."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

from gpuadmin.config.schema import Settings, User

_EPOCH = date(1970, 1, 1)


def desired(user: User, settings: Settings) -> dict[str, Any]:
    """Given a person, return what every node receives about them: days since the epoch for dates, uid = gid."""
    return {
        "name": user.name,
        "uid": user.uid,
        "gid": user.uid,
        "shell": settings.accounts.shell,
        "home": f"{settings.homes.path}/{user.name}",
        # shadow(5): "the day on which login is no longer possible", so the day after the last valid one
        # guard: an end of long ago is not none -> (user.expires - _EPOCH).days + 1
        "expires": None if user.expires is None else max((user.expires - _EPOCH).days + 1, 1),
        "locked": user.locked,
        "keys": list(user.keys),
        "docker": user.docker and settings.docker.enabled,
        **({} if user.group is None else {"group": user.group}),
        **({"projects": list(user.projects)} if user.projects else {}),
    }


def variables(settings: Settings, users: Iterable[User], absent: Iterable[tuple[str, int]] = ()) -> dict[str, Any]:
    """The extra variables that every account verb hands to its playbook."""
    users = list(users)
    # whoever may not log in is told nothing of their jobs
    addresses = {user.name: user.email for user in users if user.email and not user.locked}
    return {
        **({} if settings.slurm is None else {"gpuadmin_addresses": addresses}),
        "gpuadmin_users": [desired(user, settings) for user in users],
        "gpuadmin_absent": [{"name": name, "uid": uid} for name, uid in absent],
    }

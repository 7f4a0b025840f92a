"""Login names for applicants: asked for, or made from the address; never guessed where two people could be meant."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuadmin.config import fields
from gpuadmin.config.schema import Registry, Settings

_WAY_OUT = "choose one: --name {email}=NAME"


@dataclass(frozen=True)
class Newcomer:
    """Somebody who needs a login name: their address, and what they asked for, if anything."""

    email: str
    asked: str | None = None


@dataclass(frozen=True)
class Named:
    """The name that somebody gets, or why an admin has to choose."""

    name: str | None
    problem: str = ""


def derived(email: str) -> str:
    """Given an address, return a login name: `Kim.Minji+gpu@…` -> `kim-minji`, `20261234@…` -> `u20261234`."""
    local = email.partition("@")[0].partition("+")[0].casefold()
    name = re.sub(r"[^a-z0-9_]+", "-", local).strip("-")
    return name if re.match(r"[a-z_]", name) else f"u{name}"


def choose_names(
    newcomers: Sequence[Newcomer], registry: Registry, settings: Settings, given: Mapping[str, str]
) -> list[Named]:
    """Given newcomers, return a name or a problem for each. `given` (address -> name) is what the admin decided.

    A name that somebody has, or had, under another address is a problem: a home or a backup of that name may be theirs.
    """
    decided = {email.casefold(): name for email, name in given.items()}
    chosen = [_choose(newcomer, registry, settings, decided.get(newcomer.email.casefold())) for newcomer in newcomers]
    counts = Counter(found.name for found in chosen if found.name is not None)
    return [
        Named(None, f"{counts[found.name]} applicants would be '{found.name}'; {_WAY_OUT.format(email=newcomer.email)}")
        if found.name is not None and counts[found.name] > 1
        else found
        for newcomer, found in zip(newcomers, chosen, strict=True)
    ]


def _choose(newcomer: Newcomer, registry: Registry, settings: Settings, decided: str | None) -> Named:
    way_out = _WAY_OUT.format(email=newcomer.email)
    before = next(
        (entry for entry in registry.retired if entry.email and entry.email.casefold() == newcomer.email.casefold()),
        None,
    )
    if decided is None and before is not None:
        return Named(before.name)
    # cut, so that a too long name is not shown in full
    name = (decided or (newcomer.asked.strip().lower() if newcomer.asked else derived(newcomer.email)))[:64]
    try:
        fields.user_name(name)
    except ValueError as error:
        return Named(None, f"{error}; {way_out}")
    if name in (settings.admin.user, settings.accounts.group):
        return Named(None, f"'{name}' is the cluster's own account or group; {way_out}")
    if any(user.name == name for user in registry.users):
        return Named(None, f"'{name}' is somebody else's account; {way_out}")
    retired = next((entry for entry in registry.retired if entry.name == name), None)
    if retired is not None and decided is None:
        return Named(
            None,
            f"'{name}' was an account until {retired.removed}, and it is not known to be the same person's; if it is: "
            f"--name {newcomer.email}={name}, else another name",
        )
    return Named(name)

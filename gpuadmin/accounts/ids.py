"""Which uids and subordinate ids people get."""

from __future__ import annotations

from collections.abc import Iterable

from gpuadmin.config.schema import Registry, Settings
from gpuadmin.errors import RefusedError


def subid_range(uid: int, settings: Settings) -> tuple[int, int]:
    """Given a uid, return the first and the last of its subordinate ids."""
    start = settings.subids.base + (uid - settings.accounts.uid_first) * settings.subids.size
    return start, start + settings.subids.size - 1


def next_uid(registry: Registry, settings: Settings, taken: Iterable[int] = ()) -> int:
    """Return a uid that nobody has or had: above the highest ever given, and the gaps only when that runs out.

    Raises RefusedError when the range is full.
    """
    first, last = settings.accounts.uid_first, settings.accounts.uid_last
    used = {user.uid for user in registry.users if user.uid is not None}
    used |= (
        {retired.uid for retired in registry.retired} | set(taken)  # guard: a uid that somebody had is not given again
    )
    highest = max((uid for uid in used if first <= uid <= last), default=first - 1)
    if highest < last:
        return highest + 1
    gap = next((uid for uid in range(first, last + 1) if uid not in used), None)
    if gap is None:
        raise RefusedError(
            f"all uids from {first} to {last} are taken",
            hint="raise accounts.uid_last in gpuadmin.yml; or gpuadmin remove-user --forget NAME, if all data is gone",
        )
    return gap

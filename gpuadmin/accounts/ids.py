"""Which uids and subordinate ids people get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from gpuadmin.config.schema import Registry, Settings
from gpuadmin.errors import RefusedError


def subid_range(uid: int, settings: Settings) -> tuple[int, int]:
    """Given a uid, return the first and the last of its subordinate ids."""
    start = settings.subids.base + (uid - settings.accounts.uid_first) * settings.subids.size
    return start, start + settings.subids.size - 1


def next_uid(
    registry: Registry,
    settings: Settings,
    taken: Iterable[int] = (),
    elsewhere: Mapping[int, str] = MappingProxyType({}),
) -> int:
    """Return a uid that nobody has or had: above the highest ever given, and the gaps only when that runs out.

    Raises RefusedError when the range is full. `elsewhere`: what hosts say that something carries: `HOST: …`.
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
        claims = Counter(words.partition(":")[0] for uid, words in elsewhere.items() if first <= uid <= last)
        more = "".join(f", {count} of them as {host} says" for host, count in claims.most_common(3))
        raise RefusedError(
            f"all uids from {first} to {last} are taken{more}",
            hint="raise accounts.uid_last in gpuadmin.yml; or gpuadmin remove-user --forget NAME, if all data is gone"
            + (
                "; or write them into users.yml with a uid, if that host is wrong, and gpuadmin sync-users"
                if more
                else ""
            ),
        )
    return gap

"""Which backups may go. Pure: names and times in, names and reasons out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

COPY_DAYS = 30  # a second copy stays as long, whatever else is sent meanwhile: the time to notice who sends it


@dataclass(frozen=True)
class Kept:
    """A set as retention sees it. ``verified``: those whose home in it was verified; ``homes``: all in it.

    ``received``: when it came here from another host, by the clock of this one; None: it was made here.
    """

    name: str
    created: datetime
    homes: frozenset[str]
    verified: frozenset[str]
    received: datetime | None = None

    @property
    def since(self) -> datetime:
        """What its age counts from. When it was made is what another host says."""
        return (
            self.received or self.created  # guard: age counts from this host's clock
        )

    @property
    def label(self) -> str:
        """``reset-2026-2`` of ``20261221T010203Z-reset-2026-2``."""
        return self.name.partition("-")[2]

    @property
    def ordinary(self) -> bool:
        """Whether the timer made it."""
        return self.label == "daily"


def moment(text: str) -> datetime:
    """``2026-12-21T01:02:03Z`` as a moment."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)


def reasons_to_keep(sets: Sequence[Kept], *, days: int, ordinary: int, now: datetime) -> dict[str, str]:
    """Given all complete sets, return those that stay, each with the reason.

    ``days``: how long any other than an ordinary one stays; ``ordinary``: how many of the timer's stay. Whatever the
    rule says, a set stays that holds somebody's newest verified home, or somebody's newest home where none is verified,
    and one that came from another host stays ``COPY_DAYS``.
    """
    kept: dict[str, str] = {}
    by_age = sorted(sets, key=lambda one: (one.since, one.name))
    newest: dict[str, tuple[bool, str]] = {}
    for one in by_age:
        for name in one.homes:
            verified = name in one.verified
            if verified or not newest.get(name, (False, ""))[0]:
                newest[name] = (verified, one.name)
    recent = {one.name for one in [one for one in by_age if one.ordinary][-ordinary:]} if ordinary else set()
    for one in by_age:
        holders = sorted(name for name, (_verified, where) in newest.items() if where == one.name)
        if one.ordinary and one.name in recent:
            kept[one.name] = f"one of the newest {ordinary} ordinary ones"
        elif not one.ordinary and one.since > now - timedelta(days=days):
            kept[one.name] = f"younger than {days} days"
        # guard: a second copy stays its time
        elif one.received is not None and one.received > now - timedelta(days=COPY_DAYS):
            kept[one.name] = f"it came here less than {COPY_DAYS} days ago"
        elif holders:
            more = f" and {len(holders) - 3} more" if len(holders) > 3 else ""
            kept[one.name] = f"the newest that {', '.join(holders[:3])}{more} can be restored from"
    return kept


def expired(sets: Sequence[Kept], *, days: int, ordinary: int, now: datetime) -> list[str]:
    """The names of those that may go, oldest first."""
    kept = reasons_to_keep(sets, days=days, ordinary=ordinary, now=now)
    return sorted(one.name for one in sets if one.name not in kept)


def view(found: Mapping[str, object], received: datetime | None = None) -> Kept:
    """Return what the rules ask of a set: ``found``, its record as plain data. ``received``: when it came here."""
    homes = found["homes"]
    assert isinstance(homes, Mapping)
    verified = frozenset(
        name
        for name, home in homes.items()
        if home.get("verified")  # guard: a home that was not verified does not count as verified
    )
    return Kept(str(found["name"]), moment(str(found["created"])), frozenset(homes), verified, received)

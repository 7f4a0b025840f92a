"""The mails of an announcement: to whom, once each. Pure; nothing is sent here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date

from gpuadmin.announcements import Announcement
from gpuadmin.common.mail.letter import Letter
from gpuadmin.config.schema import Registry, User
from gpuadmin.mail.ledger import Ledger
from gpuadmin.mail.notices import Notices, Sorting


def plan_announcement(
    one: Announcement,
    registry: Registry,
    today: date,
    ledger: Ledger,
    *,
    only: Collection[str] | None = None,
    again: Collection[str] = (),
) -> Notices:
    """Given an announcement and who is registered, return its mails: one for each address.

    Who cannot log in (locked, expired) is not mailed. `only`: these names alone; the mail then names the hosts.
    `again`: names to whom it is sent although it is uncertain whether they got it.
    """

    def letter(address: str, users: Sequence[User]) -> Letter:
        names = tuple(user.name for user in users)
        return Letter(
            template="announcement",
            address=address,
            keys=tuple(f"announce {one.mail} {name}" for name in names),
            names=names,
            summary=one.subject,
            values={**one.values(), "hosts": [] if only is None else list(one.hosts)},
        )

    sorting = Sorting[User](ledger, again)
    for user in registry.users:
        # guard: who is locked is announced nothing
        if user.locked or (user.expires is not None and user.expires < today):
            continue
        if only is None or user.name in only:
            sorting.add(user, f"announce {one.mail} {user.name}", user)
    return sorting.notices(letter)

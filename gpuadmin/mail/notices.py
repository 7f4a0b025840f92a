"""Decisions about notices: who has to be notified today that their account ends. Pure; nothing is sent here.

A reminder is due by `<=`, not by `==`: of the reminders that a day has passed, only the most urgent one is sent, so a
timer that slept for a week sends one mail with the right number of days. A person's notices are one mail.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Generic, TypeVar

from gpuadmin.common.mail.ledger import Entry, State
from gpuadmin.common.mail.letter import Letter
from gpuadmin.common.text import counted
from gpuadmin.config.inventory import Host
from gpuadmin.config.login import Node, list_login_nodes
from gpuadmin.config.schema import Registry, Settings, Term, User
from gpuadmin.mail.ledger import Ledger
from gpuadmin.semester.term import standings

DEFAULT_REMINDERS = (14, 7, 1)


@dataclass(frozen=True)
class Notice:
    """That an account ends on a day; sent because a reminder of so many days (`rule`) is due."""

    user: User
    kind: str  # `term`: the reset takes home and Docker data; `expiry`: the account's own last day
    day: date
    days: int
    rule: int
    term: str = ""

    @property
    def key(self) -> str:
        """Under which the ledger remembers it. A deadline that moves makes new reminders: people were sent another."""
        return f"{self.kind} {self.user.name} {self.day} {self.rule} {self.term}".strip()


@dataclass(frozen=True)
class Notices:
    """What to send, and what not, and why."""

    letters: tuple[Letter, ...] = ()
    without_address: tuple[str, ...] = ()
    uncertain: tuple[Entry, ...] = ()
    refused: tuple[Entry, ...] = ()
    notified: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """What is not sent, as a run's record has it."""
        return {
            "without_address": list(self.without_address),
            "uncertain": [entry.document() for entry in self.uncertain],
            "refused": [entry.document() for entry in self.refused],
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for a plan about those who are not notified."""
        sentences = []
        if self.without_address:
            sentences.append(f"no e-mail address, so not notified: {', '.join(self.without_address)}")
        return (*sentences, *(entry.summary for entry in (*self.uncertain, *self.refused)))


def most_urgent(day: date, today: date, reminders: Iterable[int]) -> int | None:
    """Given a last day and the reminders (days before it), return the one that is due. None: too early, or too late."""
    days = (day - today).days
    return min((rule for rule in reminders if 0 <= days <= rule), default=None)


def due(registry: Registry, settings: Settings, today: date, keep: Collection[str] = ()) -> list[Notice]:
    """Given people, settings and today, return every notice that a rule calls for, whether it was sent or not."""
    term = settings.term
    reminders = term.reminders if term is not None else DEFAULT_REMINDERS
    leaving = {entry.user.name for entry in standings(registry, settings, keep) if not entry.stays} if term else set()
    found = []
    for user in registry.users:
        if settings.is_protected(user.name):
            continue
        ends: list[tuple[str, date, str]] = []
        if term is not None and user.name in leaving:
            ends.append(("term", term.deadline, term.name))
        if user.expires is not None and not (ends and user.expires >= ends[0][1]):
            ends.append(("expiry", user.expires, ""))
        for kind, day, name in ends:
            rule = most_urgent(day, today, reminders)
            if rule is not None:
                found.append(Notice(user, kind, day, (day - today).days, rule, name))
    return found


def plan_notices(
    registry: Registry,
    settings: Settings,
    today: date,
    ledger: Ledger,
    *,
    again: Collection[str] = (),
    keep: Collection[str] = (),
    nodes: Sequence[Host] = (),
) -> Notices:
    """Given people, settings, today and what was sent, return the mails to send today: one for each address.

    `again` names people to whom a mail is sent although it is uncertain whether they got it, or was refused. `keep`
    names people who stay beyond this term (`standings`). `nodes` are the site's, for an example of how to copy files.
    """
    sorting = Sorting[Notice](ledger, again)
    for notice in due(registry, settings, today, keep):
        sorting.add(notice.user, notice.key, notice)
    login = list_login_nodes(settings, nodes) if nodes else ()
    return sorting.notices(lambda address, notices: _notice_letter(address, notices, login))


def never_notified(users: Iterable[User], term: Term, ledger: Ledger) -> list[str]:
    """Given those who leave at a term's end, return the names of those who were sent no reminder of its deadline."""
    notified = {
        tuple(entry.key.split(" ", 4)[:3])
        for entry in ledger
        if entry.state is State.SENT and entry.key.startswith("term ") and entry.key.endswith(f" {term.name}")
    }
    return [user.name for user in users if ("term", user.name, str(term.deadline)) not in notified]


def plan_closing(
    users: Iterable[User], term: str, ledger: Ledger, *, backup_until: date | None, again: Collection[str] = (),
    before: int = 0,
) -> Notices:  # fmt: skip
    """Given those who leave at the end of a term, return the mails that tell them that it has ended: one each address.

    `backup_until` is the last day on which their backup is surely kept, None if that is not known. `before`: how many
    resets of this term were taken back after such a mail: being locked out again is news.
    """

    def letter(address: str, leaving: Sequence[User]) -> Letter:
        names = tuple(user.name for user in leaving)
        return Letter(
            template="closing",
            address=address,
            keys=tuple(_closing_key(name, term, before) for name in names),
            names=names,
            summary=f"{term} has ended for {', '.join(names)}",
            values={"term": term, "accounts": names, "backup_until": backup_until},
        )

    sorting = Sorting[User](ledger, again)
    for user in users:
        sorting.add(user, _closing_key(user.name, term, before), user)
    return sorting.notices(letter)


def closed_out(names: Iterable[str], term: str, ledger: Ledger, *, before: int = 0) -> list[str]:
    """Given names, return those of people who were mailed that the term has ended, or may have been."""
    known = {name: ledger.entry(_closing_key(name, term, before)) for name in names}
    return [name for name, entry in known.items() if entry and (entry.state is State.SENT or entry.uncertain)]


def _closing_key(name: str, term: str, before: int) -> str:
    return f"closing {name} {term}" + (f" {before + 1}" if before else "")


ItemT = TypeVar("ItemT")


@dataclass
class Sorting(Generic[ItemT]):
    """Sorts what to send to people by address, and what is not sent by its reason."""

    ledger: Ledger
    again: Collection[str]
    by_address: dict[str, tuple[str, list[ItemT]]] = field(default_factory=dict)
    without: list[str] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    notified: list[str] = field(default_factory=list)

    def add(self, user: User, key: str, item: ItemT) -> None:
        """Somebody has to be sent an item, which the ledger knows as `key`."""
        if user.email is None:
            self.without.append(user.name)
        elif self.ledger.open_keys([key], user.email, user.name in self.again):
            self.by_address.setdefault(user.email.casefold(), (user.email, []))[1].append(item)
        elif (entry := self.ledger.entry(key)) is not None:
            if entry.state is State.SENT:
                self.notified.append(user.name)
            else:
                self.entries.append(entry)

    def notices(self, letter: Callable[[str, Sequence[ItemT]], Letter]) -> Notices:
        """What was sorted, with a letter for each address."""
        return Notices(
            letters=tuple(letter(address, items) for address, items in self.by_address.values()),
            without_address=tuple(dict.fromkeys(self.without)),
            uncertain=tuple(entry for entry in self.entries if entry.uncertain),
            refused=tuple(entry for entry in self.entries if entry.state is State.REFUSED),
            notified=tuple(dict.fromkeys(self.notified)),
        )


def _notice_letter(address: str, notices: Sequence[Notice], login: Sequence[Node]) -> Letter:
    ordered = sorted(notices, key=lambda notice: (notice.day, notice.user.name))
    first = ordered[0]
    ends = ", ".join(dict.fromkeys(f"{notice.user.name} ends on {notice.day}" for notice in ordered))
    left = f"{counted(first.days, 'day')} left"
    return Letter(
        template="notice",
        address=address,
        keys=tuple(notice.key for notice in ordered),
        names=tuple(dict.fromkeys(notice.user.name for notice in ordered)),
        summary=f"{ends} ({left}, reminder {first.rule})",
        values={
            "days": first.days,
            "term": next((notice.term for notice in ordered if notice.term), ""),
            "items": [
                {"account": notice.user.name, "kind": notice.kind, "day": notice.day, "days": notice.days}
                for notice in ordered
            ],
            "login": [node.address for node in login],
            "port": login[0].port if login else 22,
        },
    )

"""The three lists of import-applications: shown, and what would be done with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from rich.text import Text

from gpuadmin.accounts import requests as accounts
from gpuadmin.actions.shared.accounts import uids_elsewhere
from gpuadmin.actions.shared.mails import Post, preview_document, show_letters
from gpuadmin.applications.letters import asking, welcome
from gpuadmin.applications.matching import Entry, Lists
from gpuadmin.common.mail.ledger import Entry as LedgerEntry
from gpuadmin.common.mail.letter import Letter
from gpuadmin.config.registry import RegistryFile
from gpuadmin.config.schema import Settings, User
from gpuadmin.console import echo
from gpuadmin.display import make_table
from gpuadmin.errors import ConfigError
from gpuadmin.options import MailOptions
from gpuadmin.session import Session
from gpuadmin.terminal import SafeConsole


def lists_document(lists: Lists) -> dict[str, Any]:
    """The three lists as JSON shows them."""
    return {
        "ready": [entry.document() for entry in lists.ready],
        "incomplete": [entry.document() for entry in lists.incomplete],
        "unknown": [entry.document() for entry in lists.unknown],
        "notes": list(lists.notes),
    }


def show_lists(console: SafeConsole, lists: Lists) -> None:
    """Print the three lists as a table."""
    table = make_table("List", "Line", "Person", "Address", "Account", "What", fold=True)
    for name, style, entries in (
        ("ready", "green", lists.ready),
        ("incomplete", "yellow", lists.incomplete),
        ("unknown", "red", lists.unknown),
    ):
        for entry in entries:
            cells = (str(entry.line or "—"), entry.person or "—", entry.email or "—", entry.account or "—", what(entry))
            table.add_row(Text(name, style=style), *(Text(cell) for cell in cells))
    console.print(table)
    for note in lists.notes:
        console.print(f"Note: {note}")
    console.print(f"{len(lists.ready)} ready, {len(lists.incomplete)} incomplete, {len(lists.unknown)} unknown")


def what(entry: Entry) -> str:
    """An entry's state, for an admin."""
    if entry.reason:
        return entry.reason
    if entry.missing:
        return entry.lacks
    return "has an account already" if entry.present else "new account"


def last_day(settings: Settings, today: date) -> date | None:
    """Until when new accounts are valid. Raises ConfigError if that day is past."""
    day = settings.applications.expires or (settings.term.deadline if settings.term is not None else None)
    if day is not None and day < today:
        raise ConfigError(
            f"new accounts would end on {day}, which is past",
            hint="set the next term (term) or applications.expires in gpuadmin.yml",
        )
    return day


def requests(lists: Lists, expires: date | None) -> list[accounts.Request]:
    """What `add-user` would be asked for those who are ready and have no account."""
    return [
        accounts.request(
            {
                "name": entry.account,
                "email": entry.email,
                "keys": list(entry.application.keys),
                "docker": entry.application.docker,
                **({"expires": expires} if expires is not None else {}),
                **({"note": entry.person} if entry.person is not None else {}),
            }
        )
        for entry in lists.ready
        if entry.application is not None and not entry.present
    ]


def asking_letters(lists: Lists, settings: Settings, *, tell_unknown: bool) -> list[Letter]:
    """The mails to those whose application is incomplete, whether they were sent before or not."""
    entries = [*lists.incomplete]
    if tell_unknown:
        entries += [entry for entry in lists.unknown if entry.missing == ("group",)]
    return [letter for entry in entries if (letter := asking(entry, settings)) is not None]


@dataclass(frozen=True)
class Prepared:
    """What --apply does: the registry as it shall be, the people to give accounts to, and the mails."""

    registry: RegistryFile
    new: tuple[User, ...]
    people: tuple[User, ...]
    welcomes: Mapping[str, Letter]
    asks: tuple[Letter, ...]
    stuck: tuple[LedgerEntry, ...]
    notes: tuple[str, ...] = ()

    @property
    def letters(self) -> tuple[Letter, ...]:
        return (*self.welcomes.values(), *self.asks)


def prepare(session: Session, lists: Lists, post: Post, mail: MailOptions, *, tell_unknown: bool) -> Prepared:
    """Given the three lists, decide what --apply does. Changes nothing."""
    settings = session.site.settings
    asked = requests(lists, last_day(settings, date.today()))
    notes: tuple[str, ...] = ()
    registry = accounts.add(session.site.registry, settings, asked)
    if asked and not mail.preview:
        taken = uids_elsewhere(session)
        free, registry = registry, accounts.add(session.site.registry, settings, asked, taken.uids)
        notes = (*taken.describe_passed_over(free, registry), *taken.notes)
    new = accounts.known(registry, [request.name for request in asked])
    present = accounts.known(registry, [entry.account for entry in lists.ready if entry.present and entry.account])
    # somebody whose account was begun in a run that was cut off is owed a mail
    hosts = session.site.inventory.hosts
    greetings = {user.name: welcome(user, settings, hosts) for user in (*new, *present) if user.email is not None}
    people = (*new, *(user for user in present if user.name in greetings and post.owes(greetings[user.name], mail)))
    asks = asking_letters(lists, settings, tell_unknown=tell_unknown)
    return Prepared(
        registry=registry,
        new=tuple(new),
        people=people,
        welcomes={user.name: greetings[user.name] for user in people},
        asks=tuple(letter for letter in asks if post.is_open(letter, mail)),
        stuck=tuple(post.stuck([*(greetings[user.name] for user in present if user.name in greetings), *asks], mail)),
        notes=notes,
    )


def preview(session: Session, lists: Lists, mail: MailOptions, *, tell_unknown: bool) -> dict[str, Any]:
    """Print every mail that --apply would send, or return them for JSON."""
    post = Post.of(session, mail)
    prepared = prepare(session, lists, post, mail, tell_unknown=tell_unknown)
    letters = prepared.letters
    if not session.options.json:
        show_letters(letters, post.renderer)
        for stuck in prepared.stuck:
            echo(f"Note: {stuck.summary}")
    if mail.directory is not None:
        post.write_previews(letters)
    return {**preview_document(letters, post.renderer), "stuck": [stuck.document() for stuck in prepared.stuck]}

"""The three lists of import-applications: shown, and what would be done with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from gpuadmin.cli._accounts import uids_elsewhere
from gpuadmin.cli._mail import MailOptions, Post, preview_document, show_letters
from gpuadmin.console import say

if TYPE_CHECKING:
    from gpuadmin.accounts import Request
    from gpuadmin.applications.matching import Entry, Lists
    from gpuadmin.cli._verb import Verb
    from gpuadmin.config.registry import RegistryFile
    from gpuadmin.config.schema import Settings, User
    from gpuadmin.mail.ledger import Entry as LedgerEntry
    from gpuadmin.mail.letter import Letter


def lists_document(lists: Lists) -> dict[str, Any]:
    """The three lists as JSON shows them."""
    return {
        "ready": [entry.document() for entry in lists.ready],
        "incomplete": [entry.document() for entry in lists.incomplete],
        "unknown": [entry.document() for entry in lists.unknown],
        "notes": list(lists.notes),
    }


def show_lists(lists: Lists, *, as_json: bool) -> None:
    """Print the three lists as a table."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from gpuadmin.console import make_console

    console = make_console(json=as_json)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("List", "Line", "Person", "Address", "Account", "What"):
        table.add_column(title, overflow="fold")
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
    """An entry's state in words for an admin."""
    if entry.reason:
        return entry.reason
    if entry.missing:
        return entry.lacks
    return "has an account already" if entry.present else "new account"


def last_day(settings: Settings, today: date) -> date | None:
    """Until when new accounts are valid. Raises ConfigError where that day is past."""
    from gpuadmin.errors import ConfigError

    day = settings.applications.expires or (settings.term.deadline if settings.term is not None else None)
    if day is not None and day < today:
        raise ConfigError(
            f"new accounts would end on {day}, which is past",
            hint="set the next term (term) or applications.expires in gpuadmin.yml",
        )
    return day


def requests(lists: Lists, expires: date | None) -> list[Request]:
    """What `add-user` would be asked for those who are ready and have no account."""
    from gpuadmin import accounts

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
    from gpuadmin.applications.letters import asking

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

    @property
    def letters(self) -> tuple[Letter, ...]:
        return (*self.welcomes.values(), *self.asks)


def prepare(verb: Verb, lists: Lists, post: Post, mail: MailOptions, *, tell_unknown: bool) -> Prepared:
    """Given the three lists, decide what --apply does. Changes nothing."""
    from gpuadmin import accounts
    from gpuadmin.applications.letters import welcome

    settings = verb.site.settings
    asked = requests(lists, last_day(settings, date.today()))
    registry = accounts.add(verb.site.registry, settings, asked)
    if asked and not mail.preview:
        registry = accounts.add(verb.site.registry, settings, asked, uids_elsewhere(verb))
    new = accounts.known(registry, [request.name for request in asked])
    present = accounts.known(registry, [entry.account for entry in lists.ready if entry.present and entry.account])
    nodes = [host.name for host in verb.site.inventory.group("gpu")]
    # somebody whose account was begun in a run that was cut off is owed a mail
    greetings = {user.name: welcome(user, settings, nodes) for user in (*new, *present) if user.email is not None}
    people = (*new, *(user for user in present if user.name in greetings and post.owes(greetings[user.name], mail)))
    asks = asking_letters(lists, settings, tell_unknown=tell_unknown)
    return Prepared(
        registry=registry,
        new=tuple(new),
        people=people,
        welcomes={user.name: greetings[user.name] for user in people},
        asks=tuple(letter for letter in asks if post.is_open(letter, mail)),
        stuck=tuple(post.stuck([*(greetings[user.name] for user in present if user.name in greetings), *asks], mail)),
    )


def preview(verb: Verb, lists: Lists, mail: MailOptions, *, tell_unknown: bool) -> dict[str, Any]:
    """Print every mail that --apply would send, or return them for JSON."""
    post = Post.of(verb, mail)
    prepared = prepare(verb, lists, post, mail, tell_unknown=tell_unknown)
    letters = prepared.letters
    if not verb.options.json:
        show_letters(letters, post.renderer)
        for stuck in prepared.stuck:
            say(f"Note: {stuck.words}")
    if mail.directory is not None:
        post.write_previews(letters)
    return {**preview_document(letters, post.renderer), "stuck": [stuck.document() for stuck in prepared.stuck]}

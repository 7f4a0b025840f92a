"""The mail that somebody with a new account gets: to whom add-user sends it, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuadmin.actions.shared.mails import Post, mails_document
from gpuadmin.applications.letters import welcome
from gpuadmin.common.mail.ledger import Entry
from gpuadmin.common.mail.letter import Letter
from gpuadmin.config.schema import User
from gpuadmin.console import echo
from gpuadmin.errors import GpuadminError
from gpuadmin.options import MailOptions
from gpuadmin.results import RunResult
from gpuadmin.session import Session


@dataclass(frozen=True)
class Welcomes:
    """The mails that add-user is to send, by name. `silent`: who has no address.

    `stuck`: mails that are not sent again by themselves, although nobody knows that they arrived.
    """

    letters: Mapping[str, Letter]
    silent: tuple[str, ...] = ()
    stuck: tuple[Entry, ...] = ()


def welcomes(
    session: Session, people: Sequence[User], new: Sequence[str], post: Post, mail: MailOptions, *, asked: bool
) -> Welcomes:
    """Given people who are added, and which of them are new, decide who is mailed. Changes nothing.

    Whoever was registered before gets it if a run that was cut off had decided so, or if somebody has `asked` for it;
    nobody gets it whom the ledger has as mailed. Each mail is rendered: so a wrong template is found here.
    """
    # not by the note: an admin's remark is not for the person
    letters = {
        user.name: welcome(
            user,
            session.site.settings,
            session.site.inventory.hosts,
            # guard: an admin's remark is not mailed to the person
            person=user.name,
        )
        for user in people
        if user.email is not None
    }
    for letter in letters.values():
        post.renderer.message(letter)
    open_ = {
        name: letter
        for name, letter in letters.items()
        if
        # guard: who has been mailed is not mailed again
        post.is_open(letter, mail)
        # guard: who was there before is mailed when somebody asks
        and (asked or name in new or post.owes(letter, mail))
    }
    return Welcomes(
        letters=open_,
        silent=tuple(user.name for user in people if user.email is None and (asked or user.name in new)),
        stuck=tuple(post.stuck(list(letters.values()), mail)),
    )


def mail_those_with_account(
    session: Session,
    run: RunResult,
    people: Sequence[User],
    letters: Mapping[str, Letter],
    post: Post,
    *,
    others: Sequence[Letter] = (),
) -> tuple[Mapping[str, Any], bool]:
    """Mail those of the people who have an account now, and `others`.

    Returns what became of the mails, as a run's record has it, and whether all went.
    """
    if (
        # guard: a check mails nobody
        session.check
        # guard: a check, or a run that was cut, mails nobody
        or run.interrupted
    ):
        return mails_document(()), True
    asked = [user for user in people if user.name in letters]
    done = with_account(run, asked, homes=bool(session.site.inventory.group("storage")))
    waiting = [user.name for user in asked if user.name not in done]
    if waiting:
        echo(f"Not mailed before they have a home and an account: {', '.join(waiting)}", err=True)
    try:
        deliveries = post.send([*(letters[name] for name in done), *others], session.console)
    except GpuadminError as error:
        error.show()
        return {**mails_document(()), "not_mailed": [user.name for user in asked], "error": error.message}, False
    good = all(delivery.good for delivery in deliveries)
    return {**mails_document(deliveries), "not_mailed": waiting}, good


def with_account(run: RunResult, people: Sequence[User], *, homes: bool = True) -> list[str]:
    """The names of those who can log in to at least one node, and, where the site makes `homes`, have one."""

    def fine(kind: str, name: str, bad: Sequence[str]) -> bool:
        found = [(host.reports.get(kind) or {}).get(name) for host in run.hosts.values()]
        return any(entry is not None and entry["status"] not in bad for entry in found)

    return [
        user.name
        for user in people
        if (not homes or fine("homes", user.name, ("conflict",)))  # guard: who has no home is not welcomed
        and fine("users", user.name, ("conflict", "unknown"))
    ]

"""Telling people that their account ends: what notify does every day, and a reset before it begins."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from gpuadmin.cli._mail import MailOptions, Post, mails_document, plan_letters

if TYPE_CHECKING:
    from rich.console import Console

    from gpuadmin.cli._verb import Verb
    from gpuadmin.config.schema import User
    from gpuadmin.notices import Notices
    from gpuadmin.plan import PlanBuilder


@dataclass(frozen=True)
class Announcement:
    """What is to be told, and the means to do so. Nothing is sent before `send`."""

    notices: Notices
    post: Post

    def add_to(self, builder: PlanBuilder) -> None:
        """Add to a plan who gets which mail, and who gets none and why."""
        plan_letters(builder, self.notices.letters)
        for warning in self.notices.warnings:
            builder.warn(warning)

    def send(self, console: Console) -> tuple[bool, dict[str, Any]]:
        """Send the mails. Returns whether all were taken, and what became of each, for a record.

        Raises GpuadminError where the mail server is away; then nothing was sent. Running it again sends the rest.
        """
        deliveries = self.post.send(self.notices.letters, console)
        good = all(delivery.good for delivery in deliveries)
        return good, {**mails_document(deliveries), **self.notices.document()}


def announce_end(
    verb: Verb, mail: MailOptions, *, keep: Collection[str] = (), today: date | None = None
) -> Announcement:
    """The reminders that are due today. `keep` names people who stay beyond the term by --keep."""
    from gpuadmin.notices import plan_notices

    site, post = verb.site, Post.of(verb, mail)
    day = today or date.today()
    notices = plan_notices(site.registry.registry, site.settings, day, post.ledger, again=mail.again, keep=keep)
    return Announcement(notices, post)


def announce_closed(
    verb: Verb, mail: MailOptions, users: Iterable[User], term: str, *, backup_until: date | None
) -> Announcement:
    """That the term has ended for these people, once each; `backup_until` is the last day of their backup."""
    from gpuadmin.notices import plan_closing

    post = Post.of(verb, mail)
    return Announcement(plan_closing(users, term, post.ledger, backup_until=backup_until, again=mail.again), post)

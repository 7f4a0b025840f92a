"""The mail to those whom a reset locks out: that the term has ended, and until when their backup is kept.

It belongs to the lock. What could not be sent then, or was never sent because an older gpuadmin did the lock, is sent
when the reset ends: a mail has the same key in both, so nobody gets it twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuadmin.actions.semester.reset import Reset
from gpuadmin.actions.shared.mails import Post, mails_document, plan_letters, show_letters
from gpuadmin.config.schema import User
from gpuadmin.errors import GpuadminError
from gpuadmin.mail.deliver import Delivery
from gpuadmin.mail.ledger import Ledger, State
from gpuadmin.mail.notices import Notices, closed_out, plan_closing
from gpuadmin.plan import Plan, PlanBuilder
from gpuadmin.semester.planner import kept_until


def closing_notices(reset: Reset) -> Notices | None:
    """The mails that those who leave are still to be sent; None where the site sends no mail."""
    site, decision = reset.session.site, reset.decision
    if site.settings.mail is None:
        return None
    registry = reset.registry.registry
    # an address that was corrected meanwhile is where the mail goes
    now = {user.name: user.email for user in registry.users} | {gone.name: gone.email for gone in registry.retired}
    people = [User(name=one.name, uid=one.uid, email=now.get(one.name, one.email)) for one in decision.leaving]
    return plan_closing(
        people, decision.term, Ledger.of(site.directory), again=reset.mail.again, before=reset.state.closed_before,
        backup_until=kept_until(decision.backup, site.settings.backups.days),
    )  # fmt: skip


def with_closing(plan: Plan, reset: Reset) -> Plan:
    """Given a phase's plan, return it with the mails that the phase sends.

    They are rendered, so that a template that is wrong is found before anybody is locked out. Raises ConfigError.
    """
    notices = closing_notices(reset)
    if notices is None:
        return plan
    post = Post.of(reset.session, reset.mail)
    for letter in notices.letters:
        post.renderer.message(letter)
    if reset.mail.preview and not reset.session.options.json:
        show_letters(notices.letters, post.renderer)
    builder = PlanBuilder(plan.title, plan.destroys, list(plan.steps), list(plan.warnings))
    plan_letters(builder, notices.letters)
    for warning in notices.warnings:
        builder.warn(warning)
    return builder.build(question=plan.question)


def send_closing(reset: Reset, *, later: bool = False) -> dict[str, Any]:
    """Send them. Returns what became of each, for the journal. Raises GpuadminError where one is to be tried again.

    `later`: a mail server that is away is no error: the reset goes on, and sends them when it ends.
    """
    notices = closing_notices(reset)
    if notices is None:
        return mails_document(())
    try:
        deliveries = Post.of(reset.session, reset.mail).send(notices.letters, reset.session.console)
        _refuse_failed(deliveries, later=later)
    except GpuadminError as error:
        if not later:  # guard: a mail server that is away does not stop a reset after the lock -> True
            raise
        error.show()
        left = closing_notices(reset) or notices  # some may have been sent before it went away
        owed = [name for letter in left.letters for name in letter.names]
        return {**mails_document(()), **notices.document(), "not_mailed": owed, "error": error.message}
    return {**mails_document(deliveries), **notices.document()}


def _refuse_failed(deliveries: Sequence[Delivery], *, later: bool) -> None:
    """Nobody is forgotten: a reset ends when every mail was handed over, or refused for good."""
    failed = [one for one in deliveries if one.state is State.FAILED]
    if failed and not later:  # guard: a reset does not end before its mails were handed over
        names = ", ".join(name for one in failed for name in one.letter.names)
        raise GpuadminError(
            f"not mailed yet: {names}: {failed[0].detail}",
            hint="gpuadmin semester-reset --resume tries again; --mail-dir DIR writes the mails into files instead",
        )


def were_mailed(reset: Reset, names: Sequence[str]) -> list[str]:
    """Given names, return those of people who were mailed that they are locked out, or may have been."""
    ledger = Ledger.of(reset.session.site.directory)
    return closed_out(names, reset.decision.term, ledger, before=reset.state.closed_before)

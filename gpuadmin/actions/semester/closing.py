"""The mail to people whom a reset locks out: the term has ended, and their backup is kept until a day.

It belongs to the lock. What could not be sent then, or was never sent because an older gpuadmin did the lock, is sent
when the reset ends: a mail has the same key in both, so nobody gets it twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuadmin.actions.semester.reset import Reset
from gpuadmin.actions.shared.mails import Post, mails_document, plan_letters, show_letters
from gpuadmin.common.mail.deliver import Delivery
from gpuadmin.common.mail.ledger import State
from gpuadmin.config.schema import User
from gpuadmin.errors import GpuadminError
from gpuadmin.mail.ledger import Ledger
from gpuadmin.mail.notices import Notices, closed_out, plan_closing
from gpuadmin.plan import Plan, PlanBuilder
from gpuadmin.semester.planner import kept_until


@dataclass(frozen=True)
class Closing:
    """The mails of a phase to those who leave, decided once: what its plan shows is what it sends."""

    reset: Reset
    notices: Notices
    post: Post | None  # None where the site sends no mail

    @classmethod
    def of(cls, reset: Reset) -> Closing:
        """Those that are still to be sent. Raises ConfigError.

        They are rendered, so that a template that is wrong is found before anybody is locked out.
        """
        site, decision = reset.session.site, reset.decision
        if site.settings.mail is None:
            return cls(reset, Notices(), None)
        registry = reset.registry.registry
        # an address that was corrected meanwhile is where the mail goes
        now = {user.name: user.email for user in registry.users} | {gone.name: gone.email for gone in registry.retired}
        people = [User(name=one.name, uid=one.uid, email=now.get(one.name, one.email)) for one in decision.leaving]
        notices = plan_closing(
            people, decision.term, Ledger.of(site.directory), again=reset.mail.again, before=reset.state.closed_before,
            backup_until=kept_until(decision.backup, site.settings.backups.days),
        )  # fmt: skip
        post = Post.of(reset.session, reset.mail)
        for letter in notices.letters:
            post.renderer.message(letter)
        return cls(reset, notices, post)

    def planned(self, plan: Plan) -> Plan:
        """Given a phase's plan, return it with the mails that the phase sends."""
        if self.post is not None and self.reset.mail.preview and not self.reset.session.options.json:
            show_letters(self.notices.letters, self.post.renderer)
        builder = PlanBuilder(plan.title, plan.destroys, list(plan.steps), list(plan.warnings))
        plan_letters(builder, self.notices.letters)
        for warning in self.notices.warnings:
            builder.warn(warning)
        return builder.build(question=plan.question)

    def send(self, *, later: bool = False) -> dict[str, Any]:
        """Send them. Returns what became of each, for the journal. Raises GpuadminError if one must be tried again.

        `later`: a mail server that is away is not an error: the reset goes on, and sends them when it ends.
        """
        if self.post is None:
            return mails_document(())
        stops = not later  # guard: a mail server that is away does not stop a reset after the lock -> True
        hint = "gpuadmin semester-reset --resume tries again; --mail-dir DIR writes the mails into files instead"
        hint = hint if stops else "the reset goes on, and sends them when it ends"
        deliveries: Sequence[Delivery] = ()
        try:
            deliveries = self.post.send(self.notices.letters, self.reset.session.console)
            failed = [(one.letter, one.detail) for one in deliveries if one.state is State.FAILED]
        except GpuadminError as error:  # nothing was sent
            failed = [(letter, error.message) for letter in self.notices.letters]
            hint = "; ".join(filter(None, (error.hint, hint)))
        found = {**mails_document(deliveries), **self.notices.document()}
        if names := [name for letter, _ in failed for name in letter.names]:
            problem = GpuadminError(f"not mailed yet: {', '.join(names)}: {failed[0][1]}", hint=hint)
            if stops:  # guard: a reset does not end before its mails were handed over
                raise problem
            problem.show()
            found |= {"not_mailed": names, "error": problem.message}
        return found


def were_mailed(reset: Reset, names: Sequence[str]) -> list[str]:
    """Given names, return those of people who were mailed that they are locked out, or may have been."""
    ledger = Ledger.of(reset.session.site.directory)
    return closed_out(names, reset.decision.term, ledger, before=reset.state.closed_before)

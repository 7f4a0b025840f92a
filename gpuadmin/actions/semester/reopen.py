"""The last phase of a reset: accounts go, and those who had them are notified until when their backup is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from gpuadmin.actions.semester.phase import Outcome, Phase
from gpuadmin.actions.shared.mails import Post, mails_document
from gpuadmin.config.schema import User
from gpuadmin.mail.ledger import Ledger
from gpuadmin.mail.notices import plan_closing
from gpuadmin.plan import Plan
from gpuadmin.results import RunResult
from gpuadmin.semester import names, plans
from gpuadmin.semester.report import until


class Reopen(Phase):
    """Whose things are all gone loses the account; the term that follows begins when all phases are done."""

    name = names.REOPEN
    does = (
        "accounts of those who left are removed (their uids stay taken), "
        "they are notified until when their backup is kept; `term` becomes `term.next`"
    )
    proof = "the report"
    plays = (names.REOPEN,)

    @property
    def retiring(self) -> list[str]:
        """Those who go for good: registered, with nothing of theirs pending or kept."""
        state = self.reset.state
        # a user's name has no dot; what a restore made beside the home has one
        kept = {name.partition(".")[0] for name in state.done.get(names.WIPE, {}).get("kept", {})}
        if state.pending.get(names.WIPE) or not self.reset.by_registry:
            return []
        return [one.name for one in self.reset.decision.leaving if one.name not in kept]

    def plan(self) -> Plan:
        term = self.reset.session.site.settings.term
        following = term.next.name if term is not None and term.next is not None else None
        return plans.reopen(self.reset.decision, self.retiring, super().hosts(check=False), following)

    def hosts(self, *, check: bool) -> list[str]:
        return super().hosts(check=check) if self.retiring else []

    def variables(self, *, check: bool) -> Mapping[str, Any]:
        retiring = self.retiring
        leaving = self.reset.decision.leaving
        return {"gpuadmin_absent": [{"name": one.name, "uid": one.uid} for one in leaving if one.name in retiring]}

    def prepare(self) -> None:
        registry = self.reset.registry
        registered = [name for name in self.retiring if registry.find(name) is not None]
        if registered:
            registry.changed(self.reset.session.site.settings, retire=registered).save()

    def run(self, *, check: bool) -> Outcome:
        outcome = super().run(check=check)
        return outcome if check else replace(outcome, result={**outcome.result, **self._closing()})

    def result(self, run: RunResult) -> Outcome:
        return self.proven(run, {"retired": self.retiring})

    def _closing(self) -> dict[str, Any]:
        """Tell those who left that it is over, and until when their backup is kept."""
        reset, site = self.reset, self.reset.session.site
        if site.settings.mail is None:
            return {"mails": []}
        found = next((one for one in reset.facts.backups() if one["name"] == reset.decision.backup), None)
        last = None if found is None else date.fromisoformat(until(found["created"], site.settings.backups.days))
        users = [User(name=one.name, uid=one.uid, email=one.email) for one in reset.decision.leaving]
        notices = plan_closing(users, reset.decision.term, Ledger.of(site.directory), backup_until=last)
        deliveries = Post.of(reset.session, reset.mail).send(notices.letters, reset.session.console)
        return {**mails_document(deliveries), **notices.document()}

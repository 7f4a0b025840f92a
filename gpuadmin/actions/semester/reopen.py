"""The last phase of a reset: accounts go, and the next term begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpuadmin.actions.semester.phase import Outcome, Phase
from gpuadmin.actions.shared.monitor import dashboard_host
from gpuadmin.plan import Plan
from gpuadmin.results import RunResult
from gpuadmin.semester import plans
from gpuadmin.semester.machine import LOCK, REOPEN, WIPE


class Reopen(Phase):
    """Whose things are all gone loses the account; the term that follows begins when all phases are done."""

    name = REOPEN
    does = (
        "accounts of those who left are removed (their uids stay taken); "
        "a closing mail that could not be sent before is sent; `term` becomes `term.next`"
    )
    proof = "the report"
    plays = (REOPEN,)

    @property
    def retiring(self) -> list[str]:
        """Those who go for good: registered, with nothing of theirs pending or kept."""
        state = self.reset.state
        # a user's name has no dot; what a restore made beside the home has one
        # guard: what is left beside a home keeps the account -> set(state.kept)
        kept = {name.partition(".")[0] for name in state.kept}
        # guard: whom a directory ends is in users.yml no more -> not self.reset.by_registry
        if state.pending.get(WIPE):
            return []
        return [one.name for one in self.reset.decision.leaving if one.name not in kept]

    def plan(self) -> Plan:
        site = self.reset.session.site
        term, shown = site.settings.term, dashboard_host(site)
        following = term.next.name if term is not None and term.next is not None else None
        plan = plans.reopen(
            self.reset.decision, self.retiring, self.hosts(check=False), following, shown.name if shown else ""
        )
        # a check from the beginning shows them at the lock, which will send them
        return self.closing.planned(plan) if LOCK in self.reset.state.done else plan

    def hosts(self, *, check: bool) -> list[str]:
        # a directory removes its accounts itself; here its people only leave users.yml
        return (
            super().hosts(check=check)
            if self.retiring
            # guard: accounts of a directory are not removed
            and self.reset.by_registry
            else []
        )

    def variables(self, *, check: bool) -> Mapping[str, Any]:
        retiring = self.retiring
        leaving = self.reset.decision.leaving
        return {
            "gpuadmin_absent": [
                {"name": one.name, "uid": one.uid}
                for one in leaving
                if one.name in retiring  # guard: whose home was kept keeps the account on hosts
            ]
        }

    def prepare(self) -> None:
        registry = self.reset.registry
        uids = {one.name: one.uid for one in self.reset.decision.leaving}
        registered = {name: uids[name] for name in self.retiring if registry.find(name) is not None}
        if registered:
            registry.changed(self.reset.session.site.settings, retire=registered).save()

    def run(self, *, check: bool) -> Outcome:
        outcome = super().run(check=check)
        return (
            outcome
            if check
            else replace(
                outcome,
                # guard: who was not told by the lock is told at the end -> dict(outcome.result)
                result={**outcome.result, **self.closing.send()},
            )
        )

    def result(self, run: RunResult) -> Outcome:
        return self.proven(run, {"retired": self.retiring})

"""The phases of a reset that concern people: announce, lock, end-sessions; and letting them in again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cached_property
from typing import Any

from gpuadmin.accounts.desired import desired
from gpuadmin.accounts.requests import known
from gpuadmin.actions.semester.closing import were_mailed
from gpuadmin.actions.semester.hosts import persons
from gpuadmin.actions.semester.phase import Outcome, Phase
from gpuadmin.actions.semester.reset import Reset
from gpuadmin.actions.shared.mails import Post, mails_document, plan_letters, show_letters
from gpuadmin.common.text import counted
from gpuadmin.config.schema import User
from gpuadmin.errors import ExitCode
from gpuadmin.mail.ledger import Ledger
from gpuadmin.mail.notices import Notices, never_notified, plan_notices
from gpuadmin.plan import Plan, PlanBuilder
from gpuadmin.results import RunResult
from gpuadmin.semester import plans
from gpuadmin.semester.machine import ANNOUNCE, END_SESSIONS, LOCK
from gpuadmin.semester.term import current_term
from gpuadmin.text import korean_term


class Announce(Phase):
    """Mails, sent from this machine."""

    name = ANNOUNCE
    does = "sends the reminders that are due"
    proof = "the mail ledger"
    plays = ()

    def plan(self) -> Plan:
        builder = PlanBuilder("Announce")
        notices = self._notices()
        if notices is None:
            builder.warn(
                "gpuadmin.yml has no `mail`: gpuadmin notifies nobody"
                if self.reset.session.site.settings.mail is None
                else "the monitor host sends the reminders (`timers`): none is sent from here"
            )
            return builder.build()
        # a missing password is found before anything is done
        post = Post.of(self.reset.session, self.reset.mail)
        if self.reset.mail.preview and not self.reset.session.options.json:
            show_letters(notices.letters, post.renderer)
        plan_letters(builder, notices.letters)
        for warning in notices.warnings:
            builder.warn(warning)
        return builder.build(question=f"Send {counted(len(notices.letters), 'mail')}?")

    def _notices(self) -> Notices | None:
        """The reminders that are due; None where this machine sends none."""
        site = self.reset.session.site
        # guard: nobody is reminded from two machines
        if site.settings.mail is None or site.settings.is_timed("notify"):
            return None
        return plan_notices(
            self.reset.registry.registry, site.settings, date.today(), Ledger.of(site.directory),
            again=self.reset.mail.again, keep=self.reset.request.keep,
            nodes=site.inventory.group("gpu"),
        )  # fmt: skip

    def hosts(self, *, check: bool) -> list[str]:
        return []

    def run(self, *, check: bool) -> Outcome:
        if check:
            return Outcome()  # guard: a check of a reset sends no mail
        notices = self._notices()
        if notices is None or not notices.letters:
            return Outcome({"mails": []})
        deliveries = Post.of(self.reset.session, self.reset.mail).send(notices.letters, self.reset.session.console)
        # a refused address does not stop the reset for others; it is in the report
        return Outcome({**mails_document(deliveries), **notices.document()})


class _Locks(Phase):
    """Who of those who leave is locked: in users.yml, then on the hosts."""

    @abstractmethod
    def locked(self, user: User) -> bool:
        """Whether somebody is locked afterwards."""

    def users(self) -> list[User]:
        """Those who leave, as they will be."""
        leaving = self.reset.leaving_users()
        return [user.model_copy(update={"locked": self.locked(user)}) for user in leaving]

    def prepare(self) -> None:
        if self.reset.by_registry:
            self.reset.registry.changed(self.reset.session.site.settings, update=self.users()).save()

    def variables(self, *, check: bool) -> Mapping[str, Any]:
        users = [desired(user, self.reset.session.site.settings) for user in self.users()]
        return {"gpuadmin_users": users, "gpuadmin_term": self.reset.term()}


class Lock(_Locks):
    """Nobody who leaves can come in any more."""

    name = LOCK
    does = (
        "no login by key or password, no linger, no cron or at jobs, no grants of GPUs, no Slurm jobs, running ones "
        "too, without a grace time; from the deadline on. Whoever is locked out gets a mail that says so, and until "
        "when the backup is kept"
    )
    proof = "each host's account database and spools are read again; the mail ledger"
    plays = (LOCK,)

    def plan(self) -> Plan:
        hosts = self.hosts(check=False)
        queue = self.reset.session.site.settings.slurm is not None
        plan = plans.lock(
            self.reset.decision, hosts, registry=self.reset.by_registry, queue=queue, untold=self._untold()
        )
        return self.closing.planned(plan)

    def _untold(self) -> list[str] | None:
        """Those who leave and were sent no reminder by gpuadmin; None where another machine sends them."""
        site = self.reset.session.site
        if site.settings.mail is None:
            return []
        if site.settings.is_timed("notify"):
            return None
        return never_notified(self.reset.leaving_users(), current_term(site.settings), Ledger.of(site.directory))

    def locked(self, user: User) -> bool:
        return True

    def prepare(self) -> None:
        if (
            self.reset.by_registry
            and not self.reset.state.unlocked_before  # guard: who was locked before is written down once
        ):
            before = [user.name for user in self.reset.leaving_users() if not user.locked]
            self.reset.journal.write("unlocked-before", names=before)  # guard: who was locked before is in the journal
        super().prepare()

    def result(self, run: RunResult) -> Outcome:
        outcome = self.proven(run, {"people": list(self.reset.decision.names)})
        if not any(host in run.hosts and host not in run.bad for host in self.reset.named("gpu")):
            # guard: who is locked out nowhere is not told that they are
            return outcome  # no node has locked anybody out
        return replace(outcome, result={**outcome.result, **self.closing.send(later=True)})


class EndSessions(Phase):
    """What those who leave still run ends, after a message and time to save work."""

    name = END_SESSIONS
    does = "a message, a grace time (`reset.grace`), then sessions, containers and leftovers end"
    proof = "no process with an id of theirs is left"
    plays = (END_SESSIONS,)

    def plan(self) -> Plan:
        return plans.end_sessions(
            self.reset.decision, self.hosts(check=False), self.reset.facts, self.reset.grace
        )  # fmt: skip

    def variables(self, *, check: bool) -> Mapping[str, Any]:
        minutes = max(1, self.reset.grace // 60)
        message = (
            f"{self.reset.decision.term} ends now. Sessions of accounts that end with it are closed in {minutes} min. "
            f"{korean_term(self.reset.decision.term)}가 끝납니다. 만료되는 계정의 세션은 {minutes}분 뒤에 닫힙니다."
        )
        return {"gpuadmin_term": self.reset.term(message=message)}

    def result(self, run: RunResult) -> Outcome:
        ended = {
            host: {
                name: done
                for name, one in answer.reports.get("sessions", {}).items()
                if (done := one.get("operations"))
            }
            for host, answer in run.hosts.items()
        }
        return self.proven(run, {"ended": ended})


class Release(Phase):
    """Before all phases: who was locked out by this reset and now stays can log in again."""

    name = "release"
    plays = ("unlock",)

    @cached_property
    def people(self) -> list[str]:
        """Those who were extended or kept after it had begun."""
        before, leaving = self.reset.state.unlocked_before, self.reset.decision.names
        users = self.reset.registry.registry.users
        return [
            user.name
            for user in users
            if user.locked
            and user.name in before  # guard: who was locked before a reset is not let in by it
            and user.name not in leaving
        ]

    def plan(self) -> Plan:
        builder = PlanBuilder("Let those who stay now log in again")
        builder.add_all(self.hosts(check=False), [f"{name}: can log in again" for name in self.people])
        _warn_of_mails(builder, self.reset, self.people)
        return builder.build()

    def users(self) -> list[User]:
        return [user.model_copy(update={"locked": False}) for user in known(self.reset.registry, self.people)]

    def prepare(self) -> None:
        self.reset.registry.changed(self.reset.session.site.settings, update=self.users()).save()

    def variables(self, *, check: bool) -> Mapping[str, Any]:
        settings, users = self.reset.session.site.settings, self.users()
        people = persons({user.name: user.uid for user in users if user.uid is not None}, settings)
        return {"gpuadmin_term": {"people": people}, "gpuadmin_users": [desired(user, settings) for user in users]}

    def result(self, run: RunResult) -> Outcome:
        return self.proven(run, {"released": self.people})


class Abort(_Locks):
    """Instead of all phases: those who were not locked before the reset can log in again."""

    name = "abort"
    plays = ("unlock",)

    def plan(self) -> Plan:
        builder = PlanBuilder(f"Take back the reset of {self.reset.decision.term}")
        before = self.reset.state.unlocked_before
        people = [name for name in before if name in self.reset.decision.names]
        builder.add_all(self.hosts(check=False), [f"{name}: can log in again" for name in people])
        builder.add("site", "the journal says that it was aborted; the backup, if one was made, stays")
        _warn_of_mails(builder, self.reset, people)
        return builder.build()

    def hosts(self, *, check: bool) -> list[str]:
        return (
            super().hosts(check=check)
            if LOCK in self.reset.state.begun
            else []  # guard: an abort before the lock asks no host
        )

    def locked(self, user: User) -> bool:
        return user.name not in self.reset.state.unlocked_before

    def prepare(self) -> None:
        if LOCK in self.reset.state.begun:  # guard: an abort before the lock unlocks nobody -> True
            super().prepare()

    def result(self, run: RunResult) -> Outcome:
        code = (
            ExitCode.HOST_FAILED
            if run.bad  # guard: an abort that did not reach all hosts is not done
            else ExitCode.DONE
        )
        return Outcome({"people": list(self.reset.state.unlocked_before)}, run.bad, code)


def _warn_of_mails(builder: PlanBuilder, reset: Reset, people: Sequence[str]) -> None:
    """People are let in again, and gpuadmin has no mail that says so."""
    mailed = were_mailed(reset, people)
    if mailed:
        builder.warn(f"mailed that their account has ended, so tell them that it has not: {', '.join(mailed)}")

"""The reset of a term, phase by phase: look, decide, show, ask, write the journal, do, prove, write the journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any

from gpuadmin.actions.semester.hosts import gather, play
from gpuadmin.common.text import counted
from gpuadmin.config.find import USERS_FILE
from gpuadmin.config.registry import RegistryFile
from gpuadmin.config.schema import User
from gpuadmin.console import ask
from gpuadmin.display import show_plan
from gpuadmin.errors import ConfigError, RefusedError
from gpuadmin.options import MailOptions
from gpuadmin.plan import Plan, Step
from gpuadmin.results import RunResult
from gpuadmin.semester.facts import Facts
from gpuadmin.semester.journal import Journal
from gpuadmin.semester.machine import BACKUP, END_SESSIONS, LOCK, WIPE, State
from gpuadmin.semester.planner import Decision, backup_name, decide, narrowed, refuse_unknown_keep, slug, with_facts
from gpuadmin.semester.refusals import refuse_unknown
from gpuadmin.semester.term import current_term
from gpuadmin.session import Session


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    term: str | None = None
    phase: str | None = None
    keep: tuple[str, ...] = ()
    resume: bool = False
    abort: bool = False
    leave_pending: bool = False
    early: bool = False
    grace: int | None = None


@dataclass
class Reset:
    """A reset in progress."""

    session: Session
    request: Request
    mail: MailOptions
    journal: Journal
    decision: Decision
    facts: Facts
    phases: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def planned(self, name: str, plan: Plan) -> None:
        """Show a part of the plan, and record it before it is done."""
        show_plan(self.session.console, plan, check=self.check)
        self.phases.setdefault(name, {})["plan"] = plan.document()
        self.steps += plan.steps
        self.session.planned(Plan(f"End of {self.decision.term}", tuple(self.steps), destroys=True))

    @property
    def check(self) -> bool:
        return self.session.check

    @property
    def state(self) -> State:
        return self.journal.state()

    @property
    def registry(self) -> RegistryFile:
        """users.yml as it is now: a reset writes it more than once."""
        return RegistryFile.load(self.session.site.directory / USERS_FILE, self.session.site.settings)

    def refuse_now(self, phase: str) -> None:
        """A phase waits for the term's last day unless the admin says otherwise, and for homes that have snapshots."""
        if not self.request.early:
            self.state.refuse_early(phase, current_term(self.session.site.settings), date.today())
        why = self.facts.no_snapshots if phase in (LOCK, END_SESSIONS, BACKUP) else None
        if why is not None:  # guard: nobody is locked out where no backup can be
            hint = "a home is wiped after a backup alone: move the homes to btrfs, or lock people: gpuadmin lock-user"
            raise RefusedError(f"{phase}: {why}", hint=hint)

    def refuse_pending(self, phase: str) -> None:
        """A phase waits for hosts where one before it is pending unless the admin leaves them pending."""
        if not self.request.leave_pending:
            self.state.refuse_pending(phase)

    def named(self, *groups: str) -> list[str]:
        return self.session.named(*groups)

    @property
    def grace(self) -> int:
        """Seconds between the message and the end of sessions."""
        given = self.request.grace
        return self.session.site.settings.reset.grace if given is None else given

    @property
    def by_registry(self) -> bool:
        """Whether accounts are ours to lock and to remove, and not a directory's."""
        return self.session.site.settings.accounts.source == "registry"

    def leaving_users(self) -> list[User]:
        """Those who leave, as users.yml has them now."""
        return [user for user in self.registry.registry.users if user.name in self.decision.names]

    def play(self, part: str, *, hosts: Sequence[str], check: bool, **variables: Any) -> RunResult:
        """Run one part of the playbook on these hosts."""
        return play(self.session, part, hosts, check=check, **variables)

    def term(self, **more: Any) -> dict[str, Any]:
        """The variable gpuadmin_term: the people in question, and more."""
        return {"people": [one.person() for one in self.decision.leaving], "grace": self.grace, **more}

    def look(self) -> None:
        """Look at the hosts again, and bring the decision up to what is there."""
        self.facts = gather(self.session)
        self.decision = with_facts(self.decision, self.facts)


def open_reset(session: Session, request: Request, mail: MailOptions) -> Reset | None:
    """Find out how far the reset got, look at the hosts and decide. None: it was done before."""
    site = session.site
    term = current_term(site.settings)
    if request.term is not None and request.term != term.name:
        raise ConfigError(f"--term {request.term}: the running term is {term.name}", hint="`term` in gpuadmin.yml")
    journal = Journal(site.runs, term.name)
    state = journal.state()
    # guard: a reset does not go on from another term's journal
    if state.decision is not None and state.decision.term != term.name:
        raise ConfigError(f"{journal.directory} belongs to {state.decision.term}", hint="give the term another name")
    if state.finished:
        return None
    if request.resume or request.abort:
        state.refuse_nothing_open(term.name)
    elif not (request.phase or session.check):
        state.refuse_second(term.name)
    refuse_unknown_keep(site.registry.registry, request.keep)
    session.require_confirmation_possible()  # guard: without a terminal and without --yes no reset begins
    session.planned(Plan(f"End of {term.name}"))
    session.begun()
    session.console.print("Looking at the hosts…")
    facts = gather(session)
    if state.open and state.decision is not None:
        if WIPE in state.begun and not session.check:
            # guard: for whom it is too late to stay is not guessed
            refuse_unknown("semester-reset", facts)
        decision = narrowed(
            state.decision, site.settings, site.registry.registry, keep=request.keep, wiped=_gone(state, facts)
        )
        if BACKUP not in state.begun:  # its name says when it is made
            decision = replace(decision, backup=_new_backup(term.name))
        if decision != state.decision and not session.check:
            journal.write("narrowed", decision=decision.document())
        decision = with_facts(decision, facts)
    else:
        decision = decide(
            site.settings, site.registry.registry, facts, keep=request.keep, backup=_new_backup(term.name)
        )
    return Reset(session, request, mail, journal, decision, facts)


def _new_backup(term: str) -> str:
    return backup_name(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), f"reset-{slug(term)}")


def _gone(state: State, facts: Facts) -> set[str]:
    """Those for whom it is too late to stay: a wipe has begun, and their home is gone."""
    homes = facts.of_homes()
    return set() if homes is None else {name for name in state.wiped if name not in homes}


def refuse_yes_alone(reset: Reset) -> None:
    """Homes are not wiped by --yes: the term has to be named, too."""
    name = reset.decision.term
    if reset.session.options.yes and reset.request.term != name:  # guard: --yes alone wipes nothing
        raise RefusedError("wipe is not confirmed by --yes alone", hint=f"give --term {name} too")


def confirm_phase(reset: Reset, phase: str) -> None:
    """Ask before a phase; before wipe the term's name has to be typed, or be given by --term together with --yes."""
    if phase != WIPE:
        reset.session.confirm(f"{phase}: go ahead?")  # guard: a phase of a reset asks before it does something
        return
    name = reset.decision.term
    if reset.session.options.yes:
        refuse_yes_alone(reset)
        return
    count = counted(len(reset.decision.wiped), "home")
    typed = ask(f"This wipes {count}. Type the term's name ({name}) to go ahead", default="")
    if typed != name:  # guard: the term's name is typed before a wipe
        raise RefusedError("not confirmed; nothing was wiped")

"""End the term: lock, back up, wipe, reopen."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

from gpuadmin.actions.semester.people import release, released, unlock
from gpuadmin.actions.semester.phases import HANDLERS, foresee
from gpuadmin.actions.semester.reset import (
    Outcome,
    Request,
    Reset,
    confirm_phase,
    open_reset,
    phases_to_do,
    refuse_early,
    refuse_pending,
)
from gpuadmin.config.find import SETTINGS_FILE
from gpuadmin.config.yamlfile import YamlFile, write_atomically
from gpuadmin.console import say
from gpuadmin.display import show_hosts, styled
from gpuadmin.errors import ConfigError, ExitCode, GpuadminError, RefusedError
from gpuadmin.options import MailOptions, Options
from gpuadmin.outcome import finish
from gpuadmin.plan import Plan, PlanBuilder
from gpuadmin.semester.plans import of_decision
from gpuadmin.semester.report import document, show, write
from gpuadmin.session import Session, opened
from gpuadmin.words import one_line


def semester_reset(options: Options, mail: MailOptions, **given: Any) -> int:
    """Do the phases of a reset, or take it back. `given`: the fields of a Request. Returns the exit code."""
    request = Request(**given)
    if options.limit:
        raise ConfigError(
            "--limit: a reset is of all hosts at once", hint="--leave-pending goes on without hosts that are away"
        )
    with opened("semester-reset", options, check=mail.preview) as session:
        reset = open_reset(session, request, mail)
        if reset is None:
            term = session.site.settings.term
            session.console.print(f"The reset of {term.name if term else ''} is done.")
            _next_term(session)
            return finish(session, ExitCode.DONE, {})
        try:
            code = _abort(reset) if request.abort else _go(reset, phases_to_do(reset))
        finally:
            session.result = {"decision": reset.decision.document(), "phases": reset.phases, "report": _report(reset)}
        return finish(session, code, session.result)


def _go(reset: Reset, phases: list[str]) -> int:
    """Do phases until one cannot be done now. Returns the exit code."""
    reset.planned("decision", of_decision(reset.decision, reset.facts.waiting()).build())
    if not reset.check and not reset.state.open:
        reset.journal.write("decided", decision=reset.decision.document())
    code = _release(reset)
    for phase in [] if code else phases:
        if not reset.check:
            refuse_early(reset, phase, date.today())
            refuse_pending(reset, phase)
        make_plan, work = HANDLERS[phase]
        plan = make_plan(reset)
        reset.planned(phase, plan)
        if reset.check:
            _foresee(reset, phase)
            continue
        code = _do(reset, phase, plan, work)
        if code:
            return code
    if not reset.check and not code:
        _finish(reset)
    if reset.check and reset.facts.silent:  # what is shown is not all that would be done
        return ExitCode.HOST_UNREACHABLE
    return code


def _release(reset: Reset) -> int:
    """Those who were locked out and stay by now can log in again, before anything else. Returns the exit code."""
    names = released(reset)
    if not names:
        return 0
    builder = PlanBuilder("Let in again those who stay by now")
    builder.add_all(reset.named("gpu", "storage"), [f"{name}: can log in again" for name in names])
    plan = builder.build()
    reset.planned("release", plan)
    if reset.check:
        return 0
    reset.session.confirm(plan.question)
    outcome = release(reset, names)
    reset.journal.write("released", names=names, pending=dict(outcome.pending))
    return int(outcome.code)


def _do(reset: Reset, phase: str, plan: Plan, work: Callable[[Reset], Outcome]) -> int:
    if not plan.empty:
        confirm_phase(reset, phase, plan)
    reset.journal.write("begin", phase=phase, plan=plan.document())
    try:
        outcome = work(reset)
    except GpuadminError as error:
        reset.journal.write("failed", phase=phase, result={"error": error.message}, pending={})
        raise
    reset.phases[phase] |= {"result": dict(outcome.result), "pending": dict(outcome.pending)}
    event = "failed" if outcome.code else "done"
    reset.journal.write(event, phase=phase, result=dict(outcome.result), pending=dict(outcome.pending))
    for host, reason in outcome.pending.items():
        say(one_line(f"{phase}: {host}: {reason}"), err=True)
    if outcome.code:
        say("Hint: gpuadmin semester-reset --resume tries again; --leave-pending goes on without", err=True)
    else:
        rest = ", but for what is pending" if outcome.pending else ""
        reset.session.console.print(styled((f"{phase}: done", "green"), rest))
    return int(outcome.code)


def _foresee(reset: Reset, phase: str) -> None:
    """What the hosts themselves say that a phase would do: the same modules, in check mode."""
    hosts = foresee(reset, phase)
    show_hosts(reset.session.console, hosts, check=True)
    reset.phases[phase]["foreseen"] = {name: host.changed for name, host in hosts.items()}


def _report(reset: Reset) -> dict[str, Any]:
    state = reset.state
    if state.decision is None:
        return {}
    return document(state, reset.session.site.settings, reset.facts, reset.journal.entries())


def _finish(reset: Reset) -> None:
    """Write and show the report; when all is done, the next term begins."""
    reset.look()
    report = _report(reset)
    page = write(reset.journal, report)
    show(reset.session.console, report, page)
    if reset.state.finished:
        _next_term(reset.session)


def _next_term(session: Session) -> None:
    """gpuadmin.yml: what was term.next is the term. Comments and the rest stay."""
    term = session.site.settings.term
    if term is None or term.next is None or session.check:
        return
    file = YamlFile.load(session.site.directory / SETTINGS_FILE)
    node = file.data["term"]
    node["name"], node["deadline"] = term.next.name, term.next.deadline
    del node["next"]
    write_atomically(file.path, file.dump())
    say(f"The term is {term.next.name} now, until {term.next.deadline}.", err=True)


def _abort(reset: Reset) -> int:
    """Take back what was done, as long as nothing was wiped."""
    if "wipe" in reset.state.begun:
        raise RefusedError(
            "homes are being wiped; this cannot be taken back",
            hint="--resume goes on; gpuadmin restore-home brings single homes back",
        )
    builder = PlanBuilder(f"Take back the reset of {reset.decision.term}")
    if "lock" in reset.state.begun:
        names = [name for name in reset.state.unlocked_before if name in reset.decision.names]
        builder.add_all(reset.named("gpu", "storage"), [f"{name}: can log in again" for name in names])
    builder.add("site", "the journal says that it was aborted; the backup, if one was made, stays")
    plan = builder.build()
    reset.planned("abort", plan)
    if reset.check:
        return 0
    reset.session.confirm(plan.question)
    if "lock" in reset.state.begun:
        outcome = unlock(reset)
        for host, reason in outcome.pending.items():
            say(one_line(f"{host}: {reason}"), err=True)
        if outcome.code:
            return int(outcome.code)
    reset.journal.write("aborted")
    return 0

"""End the term: lock, back up, wipe, reopen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuadmin.actions.semester.closing import were_mailed
from gpuadmin.actions.semester.people import Abort, Release
from gpuadmin.actions.semester.phase import Outcome, Phase
from gpuadmin.actions.semester.phases import OBJECTS
from gpuadmin.actions.semester.reset import (
    Request,
    Reset,
    confirm_phase,
    open_reset,
    refuse_yes_alone,
)
from gpuadmin.config.find import SETTINGS_FILE
from gpuadmin.config.rewrite import with_fields
from gpuadmin.config.yamlfile import YamlFile, write_atomically
from gpuadmin.console import echo
from gpuadmin.display import show_hosts, styled
from gpuadmin.errors import ConfigError, ExitCode, GpuadminError, RefusedError
from gpuadmin.options import MailOptions, Options
from gpuadmin.outcome import finish
from gpuadmin.rehearsed import refuse_another
from gpuadmin.results import RunResult
from gpuadmin.semester.machine import LOCK, REOPEN, WIPE
from gpuadmin.semester.plans import of_decision
from gpuadmin.semester.report import document, show, write
from gpuadmin.session import Session, opened
from gpuadmin.text import one_line


def semester_reset(options: Options, mail: MailOptions, **given: Any) -> int:
    """Do the phases of a reset, or take it back. `given`: the fields of a Request. Returns the exit code."""
    request = Request(**given)
    if options.limit:  # guard: --limit is refused
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
            code = _abort(reset) if request.abort else _go(reset, reset.state.phases(request.phase, check=reset.check))
        finally:
            session.result = {"decision": reset.decision.document(), "phases": reset.phases, "report": _report(reset)}
        return finish(session, code, session.result)


def _go(reset: Reset, names: Sequence[str]) -> int:
    """Do phases until one cannot be done now. Returns the exit code."""
    head = of_decision(reset.decision, reset.facts.waiting())
    if reset.check and (reason := _waits(reset, names)):
        head.warn(reason)
    decided = head.build()
    reset.planned("decision", decided)
    # guard: a reset that was rehearsed is the one that is done
    refuse_another(decided, reset.session.left_behind, part=True)
    phases = [OBJECTS[name](reset) for name in names]
    if not reset.check:
        _refuse_first(reset, phases)  # guard: what is known to refuse a reset refuses it before anything is done
    if not reset.check and not reset.state.open:
        reset.journal.write("decided", decision=reset.decision.document())
    code = _release(reset)
    asked = [code]
    for phase in [] if code and not reset.check else phases:
        if reset.check:  # guard: a reset in check mode writes nothing
            asked.append(_check(reset, phase))
        elif code := _do(reset, phase):
            return code
    if reset.check:
        return _of_check(reset, asked)
    if not code:
        _finish(reset)
    return code


def _refuse_first(reset: Reset, phases: Sequence[Phase]) -> None:
    """Refuse now whatever would end the run of these phases later: before anything is done, mailed or written down.

    Each phase asks again when its turn comes. Raises RefusedError or ConfigError.
    """
    names = [phase.name for phase in phases]
    for name in names:
        reset.refuse_now(name)
    reset.refuse_pending(names[0])
    if WIPE in names:
        refuse_yes_alone(reset)
    for phase in [one for one in phases if one.name in (LOCK, REOPEN)][:1]:
        phase.closing  # noqa: B018 - its mails are decided and rendered now


def _waits(reset: Reset, names: Sequence[str]) -> str | None:
    """Why the run of these phases would not get to its end today; None if it would."""
    try:
        for name in names:
            reset.refuse_now(name)
    except RefusedError as error:
        return error.message
    return None


def _of_check(reset: Reset, codes: Sequence[int]) -> int:
    """The exit code of a check, given those of its phases: what is shown is all that would be done, or it is not."""
    silent = ExitCode.HOST_UNREACHABLE if reset.facts.silent else ExitCode.DONE
    # guard: a check of a reset in which a host failed does not end well -> silent
    return ExitCode.HOST_FAILED if ExitCode.HOST_FAILED in codes else max([*codes, silent])


def _check(reset: Reset, phase: Phase) -> int:
    """Show what a phase is about to do, and what the hosts themselves say of it. Returns the exit code."""
    reset.planned(phase.name, phase.plan())
    hosts = phase.predicted.hosts
    show_hosts(reset.session.console, hosts, check=True)
    reset.phases[phase.name]["foreseen"] = {name: host.changed for name, host in hosts.items()}
    run = RunResult(dict(hosts))
    for host, reason in run.bad.items():
        echo(one_line(f"{phase.name}: {host}: {reason}"), err=True)
    return int(run.code)


def _do(reset: Reset, phase: Phase) -> int:
    """Show, ask, write the journal, do, write the journal. Returns the exit code."""
    reset.refuse_now(phase.name)
    reset.refuse_pending(phase.name)
    phase.require()
    plan = phase.plan()
    reset.planned(phase.name, plan)
    if not plan.empty:
        confirm_phase(reset, phase.name)
    # guard: a phase is in the journal before it begins
    reset.journal.write("begin", phase=phase.name, plan=plan.document(), early=reset.request.early)
    try:
        outcome = phase.run(check=False)
    except GpuadminError as error:
        reset.journal.write("failed", phase=phase.name, result={"error": error.message}, pending={})
        raise
    reset.phases[phase.name] |= {"result": dict(outcome.result), "pending": dict(outcome.pending)}
    event = "failed" if outcome.code else "done"
    reset.journal.write(event, phase=phase.name, result=dict(outcome.result), pending=dict(outcome.pending))
    for host, reason in outcome.pending.items():
        echo(one_line(f"{phase.name}: {host}: {reason}"), err=True)
    if outcome.code:
        echo("Hint: gpuadmin semester-reset --resume tries again; --leave-pending goes on without", err=True)
    else:
        rest = ", but for what is pending" if outcome.pending else ""
        reset.session.console.print(styled((f"{phase.name}: done", "green"), rest))
    return int(outcome.code)


def _confirmed(reset: Reset, phase: Phase) -> Outcome:
    """What comes before or instead of the phases: show, ask, do."""
    plan = phase.plan()
    reset.planned(phase.name, plan)
    reset.session.confirm(plan.question)
    return phase.run(check=False)


def _release(reset: Reset) -> int:
    """Those who were locked out and now stay can log in again, before anything else. Returns the exit code."""
    phase = Release(reset)
    if not phase.people:
        return 0
    if reset.check:
        return _check(reset, phase)
    outcome = _confirmed(reset, phase)
    reset.journal.write("released", names=phase.people, pending=dict(outcome.pending))
    return int(outcome.code)


def _abort(reset: Reset) -> int:
    """Take back what was done, as long as nothing was wiped. Returns the exit code."""
    reset.state.refuse_abort()
    phase = Abort(reset)
    if reset.check:
        return _check(reset, phase)
    outcome = _confirmed(reset, phase)
    for host, reason in outcome.pending.items():
        echo(one_line(f"{host}: {reason}"), err=True)
    if outcome.code:
        return int(outcome.code)
    reset.journal.write("aborted", mailed=were_mailed(reset, reset.decision.names))
    return 0


def _report(reset: Reset) -> dict[str, Any]:
    state = reset.state
    if state.decision is None:
        return {}
    return document(state, reset.session.site.settings, reset.facts)


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
    # guard: a check begins no term -> term is None or term.next is None
    if term is None or term.next is None or session.check:
        return
    file = YamlFile.load(session.site.directory / SETTINGS_FILE)
    following = term.next

    def begin(data: Any) -> None:
        node = data["term"]
        node["name"], node["deadline"] = following.name, following.deadline
        del node["next"]
        node.pop("begin", None)  # the earlier term's

    write_atomically(file.path, with_fields(file, begin).text)
    echo(f"The term is {term.next.name} now, until {term.next.deadline}.", err=True)

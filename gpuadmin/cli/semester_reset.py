"""gpuadmin semester-reset"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuadmin.cli._mail import MailOptions, mail_options
from gpuadmin.cli._options import Options, run_options
from gpuadmin.console import say, say_document, styled
from gpuadmin.words import one_line

if TYPE_CHECKING:
    from gpuadmin.cli._semester import Outcome, Request, Reset
    from gpuadmin.cli._verb import Verb

PHASES = ["announce", "lock", "end-sessions", "backup", "wipe", "prune", "reopen"]


@click.command("semester-reset")
@click.option("--term", metavar="NAME", help="The term's name; together with --yes it confirms the wipe.")
@click.option("--phase", type=click.Choice(PHASES), help="Only this phase; those before it must be done.")
@click.option("--keep", metavar="USER", multiple=True, help="Somebody who stays this time; repeatable.")
@click.option("--resume", is_flag=True, help="Go on with the reset that was begun.")
@click.option(
    "--abort", is_flag=True, help="Take back what was begun, before anything was wiped: people can log in again."
)
@click.option(
    "--leave-pending", is_flag=True, help="Go on although a host is away or failed; what it holds stays pending."
)
@click.option("--early", is_flag=True, help="Lock and wipe before the term's last day.")
@click.option(
    "--grace", type=click.IntRange(0, 86400), metavar="SECONDS", help="Time to save work. [default: reset.grace]"
)
@mail_options
@run_options()
@click.pass_context
def command(ctx: click.Context, /, mail: MailOptions, options: Options, **given: Any) -> None:
    """End the term: tell people, lock, end sessions, back up and verify, wipe, prune, and reopen.

    Each phase is shown, asked for and written to a journal in runs/; whatever interrupts it, --resume goes on.
    Nothing is wiped that is not in a verified backup, but Docker data and scratch, which the plan names.

    \b
    gpuadmin semester-reset --check       # who leaves, who stays, what would be wiped
    gpuadmin semester-reset               # every phase, one question each
    gpuadmin extend-term minji            # minji stays, also in a reset that was begun
    """
    from dataclasses import replace

    from gpuadmin.cli._semester import Request
    from gpuadmin.cli._verb import opened
    from gpuadmin.errors import ConfigError

    if given["resume"] and given["abort"]:
        raise click.UsageError("--resume and --abort exclude each other")
    if options.limit:
        raise ConfigError(
            "--limit: a reset is of all hosts at once", hint="--leave-pending goes on without hosts that are away"
        )
    if mail.preview:
        options = replace(options, check=True)
    with opened("semester-reset", options) as verb:
        ctx.exit(_reset(verb, Request(**given), mail))


def _reset(verb: Verb, request: Request, mail: MailOptions) -> int:
    from gpuadmin.cli._semester import open_reset, phases_to_do
    from gpuadmin.console import make_console
    from gpuadmin.records import prune_runs
    from gpuadmin.report import as_json, document

    site, options = verb.site, verb.options
    console = make_console(json=options.json)
    reset = open_reset(verb, request, mail, console)
    if reset is None:
        console.print(f"The reset of {site.settings.term.name if site.settings.term else ''} is done.")
        _next_term(verb)
        if options.json:
            say_document(as_json(document(verb.name, site=site.directory, run=None, check=options.check, status="ok")))
        return 0
    code = 1
    try:
        code = _abort(reset) if request.abort else _go(reset, phases_to_do(reset))
    finally:
        body = document(
            verb.name,
            site=site.directory,
            run=reset.record.id,
            check=options.check,
            status="ok" if code == 0 else "failed",
            result={"decision": reset.decision.document(), "phases": reset.phases, "report": _report(reset)},
        )
        reset.record.finish(body, code)
        prune_runs(site.runs, site.settings.runs.keep)
    if options.json:
        say_document(as_json(body))
    return code


def _go(reset: Reset, phases: list[str]) -> int:
    """Do phases until one cannot be done now. Returns the exit code."""
    from datetime import date

    from gpuadmin.cli._semester import refuse_early, refuse_pending
    from gpuadmin.cli._semester_phases import HANDLERS
    from gpuadmin.errors import ExitCode
    from gpuadmin.semester.plans import of_decision

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
    from gpuadmin.cli._semester_people import release, released
    from gpuadmin.cli._verb import confirm
    from gpuadmin.plan import PlanBuilder

    names = released(reset)
    if not names:
        return 0
    builder = PlanBuilder("Let in again those who stay by now")
    builder.add_all(reset.named("gpu", "storage"), [f"{name}: can log in again" for name in names])
    plan = builder.build()
    reset.planned("release", plan)
    if reset.check:
        return 0
    confirm(plan, reset.verb.options)
    outcome = release(reset, names)
    reset.journal.write("released", names=names, pending=dict(outcome.pending))
    return int(outcome.code)


def _do(reset: Reset, phase: str, plan: Any, work: Any) -> int:
    from gpuadmin.cli._semester import confirm_phase
    from gpuadmin.errors import GpuadminError

    if not plan.empty:
        confirm_phase(reset, phase, plan)
    reset.journal.write("begin", phase=phase, plan=plan.document())
    try:
        outcome: Outcome = work(reset)
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
        reset.console.print(styled((f"{phase}: done", "green"), rest))
    return int(outcome.code)


def _foresee(reset: Reset, phase: str) -> None:
    """What the hosts themselves say that a phase would do: the same modules, in check mode."""
    from gpuadmin.cli._semester_phases import foresee
    from gpuadmin.report import show_hosts

    hosts = foresee(reset, phase)
    show_hosts(reset.console, hosts, check=True)
    reset.phases[phase]["foreseen"] = {name: host.changed for name, host in hosts.items()}


def _report(reset: Reset) -> dict[str, Any]:
    from gpuadmin.semester.report import document

    state = reset.state
    if state.decision is None:
        return {}
    return document(state, reset.verb.site.settings, reset.facts, reset.journal.entries())


def _finish(reset: Reset) -> None:
    """Write and show the report; when all is done, the next term begins."""
    from gpuadmin.semester.report import show, write

    reset.look()
    report = _report(reset)
    page = write(reset.journal, report)
    show(reset.console, report, page)
    if reset.state.finished:
        _next_term(reset.verb)


def _next_term(verb: Verb) -> None:
    """gpuadmin.yml: what was term.next is the term. Comments and the rest stay."""
    from gpuadmin.config.load import SETTINGS_FILE
    from gpuadmin.config.yamlfile import YamlFile, write_atomically

    term = verb.site.settings.term
    if term is None or term.next is None or verb.options.check:
        return
    file = YamlFile.load(verb.site.directory / SETTINGS_FILE)
    node = file.data["term"]
    node["name"], node["deadline"] = term.next.name, term.next.deadline
    del node["next"]
    write_atomically(file.path, file.dump())
    say(f"The term is {term.next.name} now, until {term.next.deadline}.", err=True)


def _abort(reset: Reset) -> int:
    """Take back what was done, as long as nothing was wiped."""
    from gpuadmin.cli._semester_people import unlock
    from gpuadmin.cli._verb import confirm
    from gpuadmin.errors import RefusedError
    from gpuadmin.plan import PlanBuilder

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
    confirm(plan, reset.verb.options)
    if "lock" in reset.state.begun:
        outcome = unlock(reset)
        for host, reason in outcome.pending.items():
            say(one_line(f"{host}: {reason}"), err=True)
        if outcome.code:
            return int(outcome.code)
    reset.journal.write("aborted")
    return 0

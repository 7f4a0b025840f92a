"""What all verbs that run a playbook have in common: load, plan, show, confirm, lock, run, record, report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuadmin.cli._options import Options
from gpuadmin.console import agree, ask, say, say_document
from gpuadmin.errors import ConfigError, InterruptedRun, RefusedError
from gpuadmin.words import counted

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from gpuadmin.answers import Answers
    from gpuadmin.config.inventory import Host
    from gpuadmin.config.load import Site
    from gpuadmin.config.registry import RegistryFile
    from gpuadmin.plan import Plan
    from gpuadmin.run import RunResult, Secrets


@dataclass(frozen=True)
class Verb:
    """A verb in progress: its name, what it was given, and the site it works on."""

    name: str
    options: Options
    site: Site

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts that --limit leaves."""
        return self.site.inventory.limited(self.options.limit)

    def named(self, *groups: str) -> list[str]:
        """The names of those hosts that are in any of the groups."""
        return [host.name for host in self.hosts if set(groups) & set(host.groups)]


@dataclass(frozen=True)
class Work:
    """What a verb wants done: its plan, the playbook's variables, and the site's own files to write first."""

    plan: Plan
    variables: Mapping[str, Any] = field(default_factory=dict)
    write: Callable[[], None] = lambda: None
    result: Callable[[RunResult], dict[str, Any]] = lambda run: {}
    exit_code: Callable[[RunResult], int] | None = None  # where a verb has an opinion of its own
    check_only: bool = False  # the verb only looks: no plan is shown, nothing is asked or changed
    show_table: bool = True
    shown: bool = False  # the plan is one that an earlier work of the verb has shown
    advice: str = "then run it again"  # what to do when hosts did not succeed
    playbook: Path | None = None  # the admin's own, instead of the verb's
    last: bool = True  # of the verb's works; only that one prints the document
    unknown: Sequence[Answers] = ()  # what it was decided from: hosts that did not answer then end it with their code
    registry: RegistryFile | None = None  # as it is afterwards, where the verb changes it
    forget: Sequence[str] = ()  # names whose uids may be given again
    observe: bool = False  # before asking, look on the hosts what would change: the plan alone does not say


@contextmanager
def opened(name: str, options: Options, *, changes: bool = True, forget: Sequence[str] = ()) -> Iterator[Verb]:
    """Load the site; for a verb that changes things hold its lock from before the plan to after the run.

    Such a verb is refused where users.yml contradicts what the site remembers; `forget`: names that are let go.
    """
    from gpuadmin.config.load import find_site, load_site
    from gpuadmin.config.memory import recall
    from gpuadmin.lock import site_lock

    if changes and not options.check:
        directory = find_site(options.site)
        with site_lock(directory / "runs", name):
            site = load_site(str(directory))
            refuse_contradictions(recall(directory).contradictions(site.registry.registry, but=forget), "users.yml")
            yield Verb(name, options, site)
    else:
        site = load_site(options.site)
        if changes:
            found = recall(site.directory).contradictions(site.registry.registry, but=forget)
            refuse_contradictions(found, "users.yml")
        yield Verb(name, options, site)


def refuse_contradictions(found: Sequence[str], where: str) -> None:
    """Raise RefusedError where the registry contradicts what is remembered of it."""
    from gpuadmin.config.memory import WAY_OUT

    if found:
        shown = [*found[:10], *([f"and {len(found) - 10} more"] if len(found) > 10 else [])]
        raise RefusedError(f"{where}: " + "\n  ".join(shown), hint=WAY_OUT)


def perform(verb: Verb, work: Work) -> int:
    """Show the plan, ask, do the work, and report it. Returns the exit code."""
    from gpuadmin.config.memory import remember
    from gpuadmin.console import make_console, show_plan
    from gpuadmin.records import Record, prune_runs
    from gpuadmin.report import as_json, document, exit_code, show_hosts

    options, site = verb.options, verb.site
    check = options.check or work.check_only
    console = make_console(json=options.json)
    if not (work.check_only or work.shown):
        show_plan(console, work.plan, check=check)
    if work.plan.empty:
        return _nothing(verb, work, console, check=check)
    if not check:
        require_confirmation_possible(options)
    secrets = ask_secrets(options)
    if work.observe and not check and not options.yes:
        console.print("Looking what would change on each host…")
        foreseen = _run(verb, work, console, secrets, check=True, log=None)
        show_hosts(console, foreseen.hosts, check=True)
        if foreseen.interrupted:
            raise InterruptedRun("interrupted while looking; nothing was changed")
    if not check:
        confirm(work.plan, options)
    record = Record.begin(site.runs, verb.name, arguments=sys.argv[1:], check=check, plan=work.plan.document())
    if not check:
        work.write()
    result = _run(verb, work, console, secrets, check=check, log=record.log)
    outcome = work.result(result)
    code = (work.exit_code or exit_code)(result) or _unknown_code(work)
    body = document(
        verb.name,
        site=site.directory,
        run=record.id,
        check=check,
        status="ok" if code == 0 else "failed",
        hosts=result.hosts,
        result=outcome | ({"error": result.error} if result.error else {}),
    )
    record.finish(body, code)
    if code == 0 and not check:
        remember(site.directory, (work.registry or site.registry).registry, forget=work.forget)
    prune_runs(site.runs, site.settings.runs.keep)
    if work.show_table:
        show_hosts(console, result.hosts, check=check)
    _closing_words(verb, result, record.id, work.advice)
    if options.json and (work.last or code != 0):
        say_document(as_json(body))
    return int(code)


def _nothing(verb: Verb, work: Work, console: Console, *, check: bool) -> int:
    """Say that there is nothing to do, or that nobody knows. Returns the exit code."""
    from gpuadmin.report import as_json, document

    unknown = {host: reason for answers in work.unknown for host, reason in answers.unknown.items()}
    if unknown:
        hosts = ", ".join(f"{host} ({reason})" for host, reason in unknown.items())
        console.print(f"Nothing to do on the hosts that answered. Not known: {hosts}")
    else:
        console.print("Nothing to do.")
    if verb.options.json:
        status, result = ("failed", {"unknown": unknown}) if unknown else ("ok", {})
        body = document(verb.name, site=verb.site.directory, run=None, check=check, status=status, result=result)
        say_document(as_json(body))
    return _unknown_code(work)


def _unknown_code(work: Work) -> int:
    from gpuadmin.errors import ExitCode

    codes = [answers.code for answers in work.unknown]
    return ExitCode.HOST_FAILED if ExitCode.HOST_FAILED in codes else max(codes, default=ExitCode.DONE)


def storage_of(verb: Verb) -> list[str]:
    """The storage hosts that --limit leaves. Raises ConfigError where there is none: nobody would be asked."""
    names = verb.named("storage")
    if not names:
        if verb.site.inventory.group("storage"):
            raise ConfigError("--limit leaves out the storage host, which alone can answer", hint="leave --limit out")
        raise ConfigError("this site has no storage host", hint="put one into the group storage")
    return names


def _run(verb: Verb, work: Work, console: Console, secrets: Secrets, *, check: bool, log: Path | None) -> RunResult:
    """Run the verb's playbook: the same invocation, whether it only looks or does the work."""
    from gpuadmin.console import Progress
    from gpuadmin.run import Invocation, run

    options, site = verb.options, verb.site
    with Progress(console, verbose=options.verbose) as progress:
        return run(
            Invocation(
                playbook=work.playbook or verb.name,
                inventory=site.inventory.sources,
                known_hosts=site.known_hosts,
                hosts=len(verb.hosts),
                variables={"gpuadmin_site": site.settings.model_dump(mode="json"), **work.variables},
                limit=options.limit,
                check=check,
                verbosity=options.verbose,
                secrets=secrets,
                log=log,
            ),
            on_task=progress.task,
            on_host=progress.host,
        )


def _closing_words(verb: Verb, result: RunResult, run: str, advice: str) -> None:
    """Say on standard error what went wrong and what to do about it."""
    if result.interrupted:
        say(
            f"Interrupted. What was done is done; run gpuadmin {verb.name} again to go on. (run {run})",
            err=True,
        )
    elif result.error:
        say(f"Error: {result.error}\nHint: the whole output: gpuadmin runs {run} --log", err=True)
    elif bad := [name for name, host in result.hosts.items() if host.bad]:
        say(f"{len(bad)} of {counted(len(result.hosts), 'host')} did not succeed: {', '.join(bad)}", err=True)
        say(f"Hint: the whole output: gpuadmin runs {run} --log; {advice}", err=True)


def require_confirmation_possible(options: Options) -> None:
    """Without a terminal and without --yes nothing is done, and nothing is looked at first."""
    if not options.yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise RefusedError(
            "not confirmed: there is no terminal to ask on", hint="give --yes, or look first with --check"
        )


def confirm(plan: Plan, options: Options) -> None:
    """Ask, unless --yes."""
    require_confirmation_possible(options)
    if options.yes:
        return
    if not agree(plan.question):
        raise RefusedError("not confirmed; nothing was changed")


def ask_secrets(options: Options) -> Secrets:
    """Ask for the passwords that the options name. They stay in memory."""
    from gpuadmin.run import Secrets

    ssh = ask("ssh password", hidden=True) if options.ask_pass else None
    become = None
    if options.ask_become_pass:
        become = ask("sudo password", hidden=True, default=ssh or "")
    return Secrets(ssh=ssh, become=become or None)

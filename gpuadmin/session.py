"""A verb in progress: its site, lock, console, passwords and record; and `run`, the one way to a playbook.

An action opens a session and calls it from top to bottom: `look` where it has to know something, `plan`, `confirm`,
`run`, `report`. The user's options stay as they are; whether something is a check is an argument.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import Any

import click

from gpuadmin.ansible import runner
from gpuadmin.ansible.admin_keys import AdminKeys
from gpuadmin.ansible.invocation import MAX_FORKS, Invocation, Secrets
from gpuadmin.ansible.playbooks import read_groups
from gpuadmin.config.find import find_site
from gpuadmin.config.inventory import KEY, Host
from gpuadmin.config.load import Site, load_site
from gpuadmin.config.memory import recall, refuse_contradictions, remember
from gpuadmin.config.registry import RegistryFile
from gpuadmin.console import agree, ask, echo
from gpuadmin.display import make_console, show_hosts, show_plan
from gpuadmin.errors import (
    ConfigError,
    ExitCode,
    GpuadminError,
    HostFailedError,
    InterruptedRun,
    RefusedError,
    UnreachableError,
)
from gpuadmin.lock import site_lock
from gpuadmin.options import Options
from gpuadmin.plan import Plan
from gpuadmin.progress import Progress, slow
from gpuadmin.records import CONFIRMED, NOTHING, SENT, Record, prune_runs
from gpuadmin.rehearsed import refuse_another
from gpuadmin.report import document, name_status
from gpuadmin.results import RunResult, way_out, with_all
from gpuadmin.site_history import NOT_YET, SiteHistory, behind, declared_account, describe_run, find_keeper
from gpuadmin.terminal import SafeConsole
from gpuadmin.text import one_line

#: What brings a host as far as that it can be asked.
_BEFORE = frozenset(("bootstrap", "trust"))
_WITHOUT = "when the storage host is away, gpuadmin asks on a terminal; runs.shared: false in gpuadmin.yml ends this"
_REFUSED = "what the table says has to be settled first"


@dataclass
class Session:
    """A verb in progress. `check`: it changes nothing, because of --check or because it is of that kind."""

    verb: str
    options: Options
    site: Site
    check: bool
    console: SafeConsole
    record: Record | None = None  # from the first thing on that is done
    run_id: str = field(default_factory=lambda: token_hex(8))  # hosts know by it what this very run has begun
    result: dict[str, Any] = field(default_factory=dict)  # what the document says of a verb that an error ends
    about: Path | None = None  # the site that its document names, where that is not the one that it runs on
    lock: int | None = None  # the descriptor that has the site's lock on this machine
    history: SiteHistory | None = None  # the same, where it has one for all machines
    _plan: Plan | None = None
    _reached: str = NOTHING  # what an error can have left behind
    _saved: tuple[RegistryFile, Sequence[str]] | None = None

    @cached_property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts that --limit leaves."""
        return self.site.inventory.limited(self.options.limit)

    def named(self, *groups: str) -> list[str]:
        """The names of those hosts that are in any of the groups."""
        return [host.name for host in self.hosts if set(groups) & set(host.groups)]

    def some(self, *groups: str) -> list[str]:
        """The same; raises ConfigError if there is none: asking no host must not look like success."""
        if not (names := self.named(*groups)):
            where = "" if self.options.limit is None else f", of those that --limit {self.options.limit} leaves"
            raise ConfigError(
                f"no host is in a group that this works on: {', '.join(groups)}{where}",
                hint="name your hosts in inventory/hosts.yml; gpuadmin check says what is missing",
            )
        return names

    def those(self, patterns: Sequence[str], *groups: str) -> list[str]:
        """Of the hosts in these groups those that somebody names, in their order; without a name all.

        Raises ConfigError for a name that the inventory does not have.
        """
        limited = self.some(*groups)
        named = [one.name for part in patterns for one in self.site.inventory.limited(part, "HOST")]
        return [name for name in dict.fromkeys(named) if name in limited] if patterns else limited

    def storage(self) -> list[str]:
        """The storage hosts that --limit leaves. Raises ConfigError if there is none: nobody would be asked."""
        if not (names := self.named("storage")):
            if self.site.inventory.group("storage"):
                raise ConfigError(
                    "--limit leaves out the storage host, which alone can answer", hint="leave --limit out"
                )
            raise ConfigError("this site has no storage host", hint="put one into the group storage")
        return names

    @cached_property  # guard: passwords are asked for once -> property
    def secrets(self) -> Secrets:
        """The passwords that the options name, asked for once. They stay in memory."""
        ssh = ask("ssh password", hidden=True) if self.options.ask_pass else None
        become = None
        if self.options.ask_become_pass:
            become = ask("sudo password", hidden=True, default=ssh or "")
        return Secrets(ssh=ssh, become=become or None)

    @property
    def left_behind(self) -> str:
        """What a run that ends now leaves behind, in words: nothing, unless something was confirmed or sent before."""
        return (
            "nothing was changed"
            if self._reached == NOTHING  # guard: a no does not deny what was done before -> True
            else "what was done before that is done"
        )

    def plan(self, plan: Plan) -> bool:
        """Show what is about to be done, and record it. Returns whether there is anything to do."""
        show_plan(self.console, plan, check=self.check)
        self.planned(plan)
        refuse_another(plan, self.left_behind)
        return not plan.empty

    def refuse(self, summary: str, reasons: Iterable[str], *, hint: str | None = None) -> RefusedError:
        """Why nothing of a plan can be done. People have read the reasons as its notes; a document has them here."""
        words = "; ".join(reasons) if self.options.json else f"{summary}: the notes above say why"
        return RefusedError(words, hint=hint)

    def planned(self, plan: Plan) -> None:
        """Record a plan without showing it: that of a verb that only looks, or one that was shown in parts."""
        self._plan = plan
        if self.record is not None:
            self.record.plan(plan.document())

    def confirm(self, question: str | None = None) -> None:
        """Ask, unless --yes; a check changes nothing and asks nothing. Raises RefusedError."""
        if self.check:
            return
        self.require_confirmation_possible()  # guard: without a terminal the plan is shown and nothing is changed
        # guard: passwords are asked for before anything is written
        self.secrets  # noqa: B018 - whoever leaves at that question has changed nothing
        # guard: nothing is done that was not confirmed
        if not self.options.yes and not agree(question or (self._plan.question if self._plan else "Go ahead?")):
            raise RefusedError(f"not confirmed; {self.left_behind}")
        self._reached = SENT if self._reached == SENT else CONFIRMED

    def require_confirmation_possible(self) -> None:
        """Without a terminal and without --yes nothing is done; the plan is shown first."""
        # guard: without a terminal and without --yes nothing is done
        if not (
            self.check
            or self.options.yes
            or (
                sys.stdin.isatty()  # guard: a question is asked where somebody can answer
                and sys.stderr.isatty()  # guard: a question is asked where somebody reads it
            )
        ):
            look = "" if self.verb == "trust" else ", or look first with --check"  # which has no such option
            raise RefusedError("not confirmed: there is no terminal to ask on", hint=f"give --yes{look}")

    def save(self, registry: RegistryFile, *, forget: Sequence[str] = ()) -> None:
        """Write users.yml, but in a check; what it says is remembered when the verb has succeeded.

        `forget`: names whose uids may be given again.
        """
        self._saved = registry, forget
        if (
            not self.check and registry.file.text != self.site.registry.file.text  # guard: check mode writes nothing
        ):
            self._reached = SENT
            registry.save(forget=forget)

    def begun(self) -> Record:
        """The record of this verb, made when the first thing is done."""
        if self.record is None:
            plan = self._plan or Plan(self.verb)
            with slow(f"writing the record of this run, {self.site.runs},"):  # it waits for the disk
                self.record = Record.begin(
                    self.site.runs, self.verb, arguments=sys.argv[1:], check=self.check, plan=plan.document(),
                    account=declared_account(self.site),
                )  # fmt: skip
        return self.record

    def _send_record(self) -> None:
        """Let the site's other machines have the record, as far as it is written."""
        try:
            if self.history is not None and self.record is not None:
                self.history.keep(self.record.id)
        except (GpuadminError, OSError) as error:  # guard: a record that stays here for now ends no run
            echo(f"Note: {one_line(str(error))}. The next run sends the record of this one.", err=True)

    def _still_held(self) -> None:
        """Raises RefusedError where another machine has taken the site's lock meanwhile."""
        try:
            if self.history is not None:
                self.history.hold(self.verb)  # guard: a run whose lock another machine has begins nothing more
        except UnreachableError as error:
            echo(f"Note: {error.message}. This run goes on: nobody gets the site's lock from there.", err=True)

    def run(
        self,
        playbook: str | Path,
        hosts: Sequence[str] | None,
        variables: Mapping[str, Any],
        *,
        check: bool,
        label: str | None = None,
        doing: str | None = None,
        quiet: bool = False,
        secrets: Secrets | None = None,
        at_once: int | None = None,
    ) -> RunResult:
        """Run a playbook, one of ours by its name or an admin's own by its path. Its output goes to the record's log.

        `hosts`: their names, if none then nothing runs; None: all that --limit leaves. `label`: what the log calls it.
        `doing`: a sentence that is shown meanwhile, instead of the names of tasks, which say what a check does not do.
        `quiet`: what happens on hosts is not shown while it happens. `secrets`: instead of those asked for. `at_once`:
        on how many hosts at a time; each costs this machine memory. What goes wrong there is in the result, and so is
        an interruption; GpuadminError is raised only where Ansible could not be started.
        """
        if hosts is not None and not hosts:  # guard: a run on no host is not one on all
            return RunResult({})
        asked = self.named(*read_groups(playbook)) if hosts is None else hosts
        if not check:
            self._still_held()
        before, self._reached = self._reached, self._reached if check else SENT
        self.begun().heading(label or f"{playbook}{' (check)' if check else ''}")
        invocation = Invocation(
            playbook=playbook,
            inventory=self.site.inventory.sources,
            # guard: a run is told the host keys of its site -> self.site.directory / 'x'
            known_hosts=self.site.known_hosts,
            hosts=min(len(self.hosts if hosts is None else hosts), at_once or MAX_FORKS),
            variables={
                "gpuadmin_site": self.site.settings.model_dump(mode="json"),
                "gpuadmin_run_id": self.run_id,
                **variables,
            },
            # guard: a run is on the hosts that were named, and on no other -> self.options.limit
            limit=self.options.limit if hosts is None else ",".join(hosts),
            check=check,
            verbosity=self.options.verbose,
            secrets=self.secrets if secrets is None else secrets,
            log=self.begun().log,
            keys=AdminKeys.of(self.site.inventory.hosts, self.site.settings.admin.ssh_key, variables.get(KEY)),
        )
        with Progress(
            self.console,
            verbose=self.options.verbose,
            doing=doing or ("Looking at the hosts" if check else None),
            quiet=(quiet or check or len(asked) == 1) and not self.options.verbose,  # the table that follows says it
            note=self.begun().note,
        ) as progress:
            found = with_all(runner.run(invocation, on_task=progress.task, on_host=progress.host), asked)
        if (
            found.refused
            # guard: what was sent before a refusal pends
            and before != SENT
        ):
            self._reached = NOTHING
        return found

    def look(
        self,
        playbook: str,
        hosts: Sequence[str] | None,
        variables: Mapping[str, Any],
        *,
        at_once: int | None = None,
        quiet: bool = False,
    ) -> RunResult:
        """Run a playbook in check mode, for what hosts report. Raises InterruptedRun or GpuadminError if it was cut."""
        found = self.run(playbook, hosts, variables, check=True, at_once=at_once, quiet=quiet)
        return self.whole(found)

    def predict(
        self,
        playbook: str,
        hosts: Sequence[str] | None,
        given: Mapping[str, Any],
        advice: str = "",
        first: Callable[[RunResult], None] = lambda found: None,
    ) -> None:
        """Before somebody is asked, look what would change on each host, where the plan alone does not show it.

        `first`: shows what must not be lost in the table.
        """
        if self.check or self.options.yes:
            return
        self.require_confirmation_possible()
        self.console.print("Looking at what would change on each host…")
        found = self.run(playbook, hosts, given, check=True)
        first(found)
        whole = bool(self.options.verbose)
        show_hosts(self.console, found.hosts, check=True, whole=whole, run=self.begun().id)
        # guard: a look that was interrupted is not a plan
        self.whole(found)
        if found.hosts and len(found.bad) == len(found.hosts):  # a question would be of nothing
            kind = HostFailedError if found.code == ExitCode.HOST_FAILED else UnreachableError
            raise kind(f"no host can do it now; {self.left_behind}", hint=way_out(found.bad) or advice or _REFUSED)

    def whole(self, found: RunResult, interrupted: str = "", *, hint: str | None = None) -> RunResult:
        """Return a result of a run that came to its end. Raises InterruptedRun or GpuadminError for any other.

        `interrupted`: what to say of one that was interrupted; without it, of a look.
        """
        if found.interrupted:
            words = interrupted or f"interrupted while looking; {self.left_behind}"
            raise InterruptedRun(words, hint=hint)  # guard: a look that was interrupted decides nothing
        if found.error:
            raise GpuadminError(found.error, hint=f"the whole output: gpuadmin runs {self.begun().id} --log")
        return found

    def settle(self, code: int, result: Mapping[str, Any], run: RunResult | None = None) -> dict[str, Any]:
        """Finish the record, if anything was done, and return the verb's document."""
        body = document(
            self.verb,
            site=self.about or self.site.directory,
            run=None if self.record is None else self.record.id,
            check=self.check,
            status=name_status(code),
            hosts={} if run is None else run.hosts,
            result=result,
        )
        if self.record is not None:
            self.record.finish(body, code, reached=self._reached)
            self._send_record()
            prune_runs(self.site.runs, self.site.settings.runs.keep)
        return body

    def remember(self) -> None:
        """What a verb has brought to the hosts is what the site remembers of its people."""
        registry, forget = self._saved or (self.site.registry, ())
        if not self.check:
            remember(self.site.directory, registry.registry, forget=forget)


@contextmanager
def opened(
    verb: str,
    options: Options,
    *,
    changes: bool = True,
    check: bool = False,
    forget: Sequence[str] | None = (),
    exclusive: bool = True,
    directory: Path | None = None,
) -> Iterator[Session]:
    """Load the site; for a verb that changes things hold its lock from before the plan to after the run.

    Such a verb is refused where users.yml contradicts what the site remembers; `forget`: names that are let go
    (None: everybody who is registered).
    `check`: nothing is changed, for another reason than --check. `exclusive`: False for a verb that leaves the site
    alone (run): it goes on beside others. `directory`:
    the site, where it is not the one that the options name. What ends a verb in the middle is in its record.
    """
    check = check or options.check or not changes
    with ExitStack() as stack:
        directory = directory or find_site(options.site)
        lock = None
        if exclusive and not check:
            # guard: a verb that changes things holds the lock -> 0
            lock = stack.enter_context(site_lock(directory / "runs", verb))
        with slow(f"reading the site {directory}"):
            site = load_site(str(directory))
            if exclusive and changes:
                but = [user.name for user in site.registry.registry.users] if forget is None else forget
                found = recall(directory).contradictions(site.registry.registry, but=but)
                refuse_contradictions(found, "users.yml")
        session = Session(verb, options, site, check, make_console(json=options.json), lock=lock)
        if lock is not None:
            session.history = _locked_everywhere(session, stack)
        try:
            yield session
        except click.ClickException as error:
            _ended(session, error.exit_code, error.format_message())
            raise
        except (click.Abort, KeyboardInterrupt, EOFError):
            _ended(session, ExitCode.INTERRUPTED, "interrupted")
            raise
        except Exception as error:
            _ended(session, ExitCode.ERROR, f"{type(error).__name__}: {error}")
            raise


def _locked_everywhere(session: Session, stack: ExitStack) -> SiteHistory | None:
    """The site's lock, held until the stack ends, with all records; None where each machine has its own, or somebody
    agreed to go on without. Raises RefusedError where another machine has it.
    """
    host = find_keeper(session.site)
    if host is None or session.verb in _BEFORE:
        return None
    try:
        with slow(f"asking {host.name} for the site's lock"):
            history = SiteHistory(session.site, host)
            stack.callback(history.close)
            last = history.take(session.verb)
        # guard: files that are behind another machine's are not brought to hosts
        if older := behind(session.site, last):
            _agree(session, older, "Go on with the older files?", "git pull; whoever ran that may have to push first")
        history.begin(session.verb)
        history.exchange()
    except UnreachableError as error:
        words = f"the site's lock cannot be taken: {error.message}"
        # guard: a host that has no such lock yet can be provisioned -> True
        if NOT_YET not in words:
            # guard: nobody goes on without the site's lock by mistake
            _agree(session, words, "Does nobody else change the site now? Go on without its lock?", _WITHOUT)
        else:
            echo(f"Note: {words}. Runs from other machines are not kept away meanwhile.", err=True)
        return None
    if last and not last.get("ended"):
        echo(f"Note: the last run, of {describe_run(last)}, was cut off. Its record is on that machine.", err=True)
    return history


def _agree(session: Session, words: str, question: str, hint: str) -> None:
    """Ask, also with --yes, which was meant for something else. Raises RefusedError without a terminal, and for no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise RefusedError(words, hint=hint)
    echo(f"Warning: {words}", err=True)
    if not agree(question):
        raise RefusedError(f"not confirmed; {session.left_behind}", hint=hint)


def _ended(session: Session, code: int, message: str) -> None:
    """Something was done, and then an error came: the record says so."""
    if session.record is None:  # guard: what ends a verb in the middle is in its record -> True
        return
    try:
        session.settle(code, {**session.result, "error": message})
    # guard: a full disk does not hide what ended a run
    except OSError as problem:  # a full disk is not to hide what the error was
        echo(f"Note: how this run ended could not be recorded: {problem.strerror}", err=True)

"""What a person sees while a verb works. Colour and live progress on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from gpuadmin.plan import Plan

if TYPE_CHECKING:
    from rich.console import Console


def make_console(*, json: bool) -> Console:
    """The console for people: standard output, or standard error when the output is a JSON document.

    rich itself honours NO_COLOR and TERM=dumb.
    """
    from rich.console import Console

    stream = sys.stderr if json else sys.stdout
    # In a pipe a line of output stays a line, whatever its length, so that grep works and no name is cut.
    return Console(file=stream, highlight=False, emoji=False, width=None if stream.isatty() else 4000)


def show_plan(console: Console, plan: Plan, *, check: bool) -> None:
    """Print a plan, one block per group of hosts that get the same."""
    from rich.markup import escape

    console.print(
        f"[bold]{escape(plan.title)}[/bold]" + (" [dim](check: nothing will be changed)[/dim]" if check else "")
    )
    for hosts, actions in plan.grouped():
        console.print(f"  [cyan]{escape(hosts)}[/cyan]")
        shown = actions if len(actions) <= 40 else actions[:38]
        for action in shown:
            console.print(f"    {escape(action)}")
        if len(shown) < len(actions):
            console.print(f"    … and {len(actions) - len(shown)} more (all of them with --json, and in runs/)")
    for warning in plan.warnings:
        console.print(f"  [yellow]Note:[/yellow] {escape(warning)}")


class Progress:
    """The line that says what is going on: live on a terminal.

    Elsewhere it is a plain line now and then while a run takes long, and one per task with -v.
    """

    #: Seconds between plain lines.
    SPARING = 15.0

    def __init__(self, console: Console, *, verbose: int) -> None:
        self._console = console
        self._verbose = verbose
        self._spoke = time.monotonic()
        self._status = console.status("Starting…") if console.is_terminal else None
        self._task = ""
        self._far: dict[str, str] = {}  # host → how far it is in the task that runs

    def __enter__(self) -> Progress:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def task(self, name: str) -> None:
        """A task has begun on all hosts."""
        from rich.markup import escape

        self._task, self._far = name, {}
        if self._status is not None:
            self._status.update(escape(name))
        elif self._verbose or time.monotonic() - self._spoke >= self.SPARING:
            self._console.print(escape(f"… {name}"))
            self._spoke = time.monotonic()

    def host(self, host: str, outcome: str, detail: str) -> None:
        """A host did something worth a line: changed, failed, unreachable; or says how far it is: progress."""
        from rich.markup import escape

        if outcome == "progress":
            if self._far.get(host) != detail:
                self._far[host] = detail
                self._show_progress(host, detail)
            return
        colour = {"changed": "green", "failed": "red", "unreachable": "red"}.get(outcome, "white")
        if outcome != "changed" or self._verbose:
            self._console.print(f"  [{colour}]{outcome:<11}[/{colour}] {escape(host)}: {escape(detail)}")

    def _show_progress(self, host: str, detail: str) -> None:
        if self._status is not None:
            from rich.markup import escape

            lines = [f"  {name}: {words}" for name, words in self._far.items()]
            self._status.update(escape("\n".join([self._task, *lines[:12]])))
        else:
            self._console.print(f"  {'working':<11} {host}: {detail}", markup=False)

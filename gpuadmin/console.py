"""What a person sees while a verb works. Colour and live progress on a terminal, plain lines elsewhere.

Everything that is printed or asked goes through here (a contract test says so), and what is not printable in it stands
as escapes: names of files, of processes and of mounts are what somebody on a node chose.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from gpuadmin.plan import Plan
from gpuadmin.words import one_line, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def make_console(*, json: bool) -> Console:
    """The console for people: standard output, or standard error when the output is a JSON document.

    Whatever is printed on it is data: see `gpuadmin.terminal`. rich itself honours NO_COLOR and TERM=dumb.
    """
    from gpuadmin.terminal import SafeConsole

    stream = sys.stderr if json else sys.stdout
    # In a pipe a line of output stays a line, whatever its length, so that grep works and no name is cut.
    return SafeConsole(file=stream, highlight=False, emoji=False, markup=False, width=None if stream.isatty() else 4000)


def styled(*parts: str | tuple[str, str]) -> Text:
    """Given texts, or pairs of a text and its style, return one line of text: data in it stays data."""
    from rich.text import Text

    return Text.assemble(*(one_line(part) if isinstance(part, str) else (one_line(part[0]), part[1]) for part in parts))


def lines_of(lines: Iterable[str]) -> Text:
    """Given lines, return them as one text in which each stays a line, whatever is in it."""
    from rich.text import Text

    return Text("\n".join(one_line(line) for line in lines))


def say(text: str, *, err: bool = False, colour: str | None = None, end: bool = True) -> None:
    """Print text without a layout, on standard output or standard error. `colour`: of what stands before the colon."""
    shown = visible(text)
    if colour is not None:
        head, colon, rest = shown.partition(":")
        shown = f"{click.style(head, fg=colour)}{colon}{rest}"
    click.echo(shown, err=err, nl=end)


def say_document(document: str, *, end: bool = True) -> None:
    """Print text for a program on standard output as it is: JSON as `words.json_text` made it, a script, a page."""
    click.echo(document, nl=end)


def agree(question: str) -> bool:
    """Ask a question on standard error; no answer means no."""
    return click.confirm(visible(question), default=False, err=True)


def ask(question: str, *, hidden: bool = False, default: str | None = None) -> str:
    """Ask for a word on standard error. `hidden`: it is not shown while it is typed."""
    answer: str = click.prompt(visible(question), hide_input=hidden, default=default, show_default=False, err=True)
    return answer


def show_plan(console: Console, plan: Plan, *, check: bool) -> None:
    """Print a plan, one block per group of hosts that get the same."""
    console.print(styled((plan.title, "bold"), *([(" (check: nothing will be changed)", "dim")] if check else [])))
    for hosts, actions in plan.grouped():
        console.print(styled("  ", (hosts, "cyan")))
        shown = actions if len(actions) <= 40 else actions[:38]
        for action in shown:
            console.print(f"    {action}")
        if len(shown) < len(actions):
            console.print(f"    … and {len(actions) - len(shown)} more (all of them with --json, and in runs/)")
    for warning in plan.warnings:
        console.print(styled("  ", ("Note:", "yellow"), f" {warning}"))


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
        self._task, self._far = name, {}
        if self._status is not None:
            self._status.update(styled(name))
        elif self._verbose or time.monotonic() - self._spoke >= self.SPARING:
            self._console.print(f"… {name}")
            self._spoke = time.monotonic()

    def host(self, host: str, outcome: str, detail: str) -> None:
        """A host did something worth a line: changed, failed, unreachable; or says how far it is: progress."""
        if outcome == "progress":
            if self._far.get(host) != detail:
                self._far[host] = detail
                self._show_progress(host, detail)
            return
        colour = {"changed": "green", "failed": "red", "unreachable": "red"}.get(outcome, "white")
        if outcome != "changed" or self._verbose:
            self._console.print(styled("  ", (f"{outcome:<11}", colour), f" {host}: {detail}"))

    def _show_progress(self, host: str, detail: str) -> None:
        if self._status is not None:
            lines = [f"  {name}: {words}" for name, words in self._far.items()]
            self._status.update(lines_of([self._task, *lines[:12]]))
        else:
            self._console.print(f"  {'working':<11} {host}: {detail}")

"""Options that verbs share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date
from typing import Any

import click

from gpuadmin.cli._complete import paths, pattern, people
from gpuadmin.options import MailOptions, Options


class WholeNumber(click.IntRange):
    """A whole number in a range; click's own name for it in help and errors is INTEGER RANGE."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number", param, ctx)
        if (self.min is not None and number < self.min) or (self.max is not None and number > self.max):
            span = f"from {self.min} to {self.max}" if self.max is not None else f"of at least {self.min}"
            self.fail(f"{value} is not a number {span}", param, ctx)
        return number


class HostCommand(click.Command):
    """A verb of a host and of words that are another program's: what is gpuadmin's comes before the host, or between it
    and `--`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.ignore_unknown_options, self.allow_interspersed_args = True, False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            parser = self.make_parser(ctx)
            parser.ignore_unknown_options, parser.allow_interspersed_args = False, True
            with suppress(click.UsageError):
                found, *_ = parser.parse_args(args[: args.index("--")])
                ctx.allow_interspersed_args = not isinstance(found[str(self.params[1].name)], tuple)
        rest = super().parse_args(ctx, args)
        word = next(iter(ctx.params[str(self.params[1].name)]), "")
        if word.startswith("--") and word != "--":  # no program begins so, and none of ssh's options
            raise click.UsageError(f"{word} comes before {self.params[0].human_readable_name}, or before `--`", ctx)
        return rest


def as_day(ctx: click.Context, param: click.Parameter, value: str | None) -> date | None:
    """An option's callback: YYYY-MM-DD as a date; None for `never`, or where nothing was given."""
    if value in (None, "never"):
        return None
    try:
        return date.fromisoformat(value or "")
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a date; write YYYY-MM-DD") from None


def site_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """--site, for verbs that only read the site."""
    return click.option(
        "--site",
        metavar="DIR",
        shell_complete=paths("dir"),
        help="The site's directory. [default: $GPUADMIN_SITE, or the nearest gpuadmin.yml upwards]",
    )(function)


def parse_words(ctx: click.Context, verb: str, arguments: Sequence[str]) -> dict[str, Any]:
    """What another verb would be given by these words; nothing if there is no such verb. Raises click.UsageError."""
    group = ctx.find_root().command
    found = group.get_command(ctx, verb) if isinstance(group, click.Group) else None
    return found.make_context(verb, [*arguments], parent=ctx.parent).params if found else {}


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """--json"""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document; all else goes to stderr.")(
        function
    )


_LIMIT = click.option(
    "--limit",
    metavar="PATTERN",
    shell_complete=pattern(),
    help="Only these hosts: names, groups, or an Ansible pattern.",
)
#: What reaches Ansible alone.
_ANSIBLE = (
    click.option("-v", "--verbose", count=True, help="Say more; twice or more for Ansible's own details."),
    click.option("--ask-pass", is_flag=True, help="Ask for the ssh password."),
    click.option("--ask-become-pass", is_flag=True, help="Ask for the sudo password."),
)


def require_no_passwords(options: Options, unless: str) -> None:
    """Where a verb asks Prometheus, ssh itself asks for what it needs. Raises UsageError. `unless`: an option."""
    if options.ask_pass or options.ask_become_pass:
        raise click.UsageError(f"--ask-pass and --ask-become-pass go with {unless}; without it ssh asks by itself")


def run_options(
    *, changes: bool = True, check: str | None = None, limit: bool = True, playbook: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options of every verb that works on hosts; they arrive as one `options` argument.

    `changes`: whether the verb can change something; the others take --check and --yes too, so that a script can
    give every verb the same options, but do not show them. `check`: what --check does, where a verb has its own sense
    for it; it is then shown. `limit`, `playbook`: False for a verb that has its hosts without --limit, or that runs no
    playbook: it refuses what would have no effect.
    """
    decorators: list[Callable[..., Any]] = [
        site_option,
        *([_LIMIT] if limit else []),
        json_option,
        *(_ANSIBLE if playbook else []),
        click.option(
            "--check",
            is_flag=True,
            hidden=not changes and check is None,
            help=check or "Show the plan and the differences; change nothing.",
        ),
        click.option("-y", "--yes", is_flag=True, hidden=not changes, help="Do not ask for confirmation."),
    ]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(
            site: str | None,
            as_json: bool,
            limit: str | None = None,
            verbose: int = 0,
            ask_pass: bool = False,
            ask_become_pass: bool = False,
            check: bool = False,
            yes: bool = False,
            **arguments: Any,
        ) -> Any:
            options = Options(site, limit, check, yes, as_json, verbose, ask_pass, ask_become_pass)
            return function(options=options, **arguments)

        decorated: Callable[..., Any] = wrapper
        for decorator in reversed(decorators):
            decorated = decorator(decorated)
        return decorated

    return decorate


def mail_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every verb that sends mail; they arrive as one `mail` argument."""

    @functools.wraps(function)
    def wrapper(mail_dir: str | None, preview: bool, again: tuple[str, ...], **arguments: Any) -> Any:
        return function(mail=MailOptions(mail_dir, preview, again), **arguments)

    decorated: Callable[..., Any] = wrapper
    for decorator in (
        click.option(
            "--again",
            multiple=True,
            metavar="NAME",
            shell_complete=people(),
            help="Mail them also where an earlier mail was refused, or may have been sent or not; repeatable.",
        ),
        click.option("--preview", is_flag=True, help="Print every mail in full; send nothing, change nothing."),
        click.option(
            "--mail-dir",
            metavar="DIR",
            type=click.Path(file_okay=False),
            help="Write .eml files there instead of sending. They count as sent, unless you give --check.",
        ),
    ):
        decorated = decorator(decorated)
    return decorated


def page_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of verbs that write a page for people: in which language, and where."""
    decorated: Callable[..., Any] = function
    for decorator in (
        click.option(
            "--output",
            metavar="DIR",
            type=click.Path(file_okay=False),
            shell_complete=paths("dir"),
            help="Write Markdown and one HTML page for each language there.",
        ),
        click.option(
            "--language", type=click.Choice(["ko", "en"]), help="Only this one.  [default: mail.languages, or both]"
        ),
    ):
        decorated = decorator(decorated)
    return decorated


def power_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What reboot and shutdown take: hosts, and what happens to people who are on them."""

    @functools.wraps(function)
    def wrapper(when_idle: bool, at: str | None, force: bool, **arguments: Any) -> Any:
        if sum((when_idle, at is not None, force)) > 1:
            raise click.UsageError("--when-idle, --at and --force: one of them")
        return function(when_idle=when_idle, at=at, force=force, **arguments)

    decorated: Callable[..., Any] = wrapper
    for decorator in (
        click.option("--force", is_flag=True, help="Do it although people or their GPU work are on the nodes."),
        click.option(
            "--at", metavar="TIME", help="Tell people now, wait here until HH:MM, and send away who is left then."
        ),
        click.option("--when-idle", is_flag=True, help="Wait until nobody is on a node, for a day at most."),
        click.argument("hosts", metavar="HOST...", nargs=-1, required=True, shell_complete=pattern()),
    ):
        decorated = decorator(decorated)
    return decorated

"""What the verbs that send mail share: their options, the preview, sending, and the report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuadmin.cli._complete import people
from gpuadmin.console import say_document, styled
from gpuadmin.words import counted

if TYPE_CHECKING:
    from rich.console import Console

    from gpuadmin.cli._verb import Verb
    from gpuadmin.mail.deliver import Delivery
    from gpuadmin.mail.ledger import Entry, Ledger
    from gpuadmin.mail.letter import Letter
    from gpuadmin.mail.render import Renderer
    from gpuadmin.mail.transport import Transport
    from gpuadmin.plan import Plan, PlanBuilder


@dataclass(frozen=True)
class MailOptions:
    """What the shared options about mail said."""

    directory: str | None = None
    preview: bool = False
    again: tuple[str, ...] = ()


def mail_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every verb that sends mail; they arrive as one `mail` argument."""
    import functools

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
            help="Write .eml files there instead of sending. They count as sent, but with --check.",
        ),
    ):
        decorated = decorator(decorated)
    return decorated


def plan_letters(builder: PlanBuilder, letters: Sequence[Letter]) -> None:
    """Add to a plan who gets which mail."""
    for letter in letters:
        builder.add("mail", f"{', '.join(letter.names)} <{letter.address}>: {letter.summary}")


def show_letters(letters: Sequence[Letter], renderer: Renderer) -> None:
    """Print mails as their recipients will read them."""
    from gpuadmin.console import lines_of, make_console

    console = make_console(json=False)
    for letter in letters:
        message = renderer.message(letter)
        for header in ("From", "To", "Reply-To", "Subject"):
            if message[header] is not None:
                console.print(f"{header}: {message[header]}")
        console.print(lines_of(["", *message.get_content().splitlines(), ""]))


def preview_document(letters: Sequence[Letter], renderer: Renderer) -> dict[str, Any]:
    """The same for JSON."""
    mails = []
    for letter in letters:
        message = renderer.message(letter)
        mails.append(
            {
                "address": letter.address,
                "names": list(letter.names),
                "about": letter.summary,
                "subject": str(message["Subject"]),
                "text": message.get_content(),
            }
        )
    return {"mails": mails}


@dataclass(frozen=True)
class Post:
    """The means to send mails. Made before anything is changed, so that a missing password is found in time."""

    renderer: Renderer
    ledger: Ledger
    open_transport: Callable[[], Transport]
    check: bool

    @classmethod
    def of(cls, verb: Verb, options: MailOptions) -> Post:
        """Raises ConfigError where the site says nothing about mail, or not enough."""
        from gpuadmin.mail.ledger import Ledger
        from gpuadmin.mail.render import Renderer
        from gpuadmin.mail.smtp import Smtp
        from gpuadmin.mail.transport import Folder

        site, check = verb.site, verb.options.check or options.preview
        renderer = Renderer(site.settings, site.directory)
        mail = site.settings.mail
        assert mail is not None  # Renderer says so
        if options.directory is not None:
            directory = Path(options.directory).expanduser().absolute()
            return cls(renderer, Ledger.of(site.directory), lambda: Folder(directory), check)
        # made now, so that a password that is missing is found before anything is changed, and by --check
        server = None if options.preview else Smtp(mail)
        return cls(renderer, Ledger.of(site.directory), lambda: server or Smtp(mail), check)

    def is_open(self, letter: Letter, options: MailOptions) -> bool:
        """Whether a letter is still to be sent."""
        again = bool({*letter.names, letter.address} & set(options.again))
        return bool(self.ledger.open_keys(letter.keys, letter.address, again))

    def owes(self, letter: Letter, options: MailOptions) -> bool:
        """Whether a letter was decided in an earlier run, and is still to be sent."""
        return self.ledger.entry(letter.keys[0]) is not None and self.is_open(letter, options)

    def stuck(self, letters: Sequence[Letter], options: MailOptions) -> list[Entry]:
        """What the ledger knows of those letters that are not sent although nobody knows that they arrived."""
        from gpuadmin.mail.ledger import State

        known = [self.ledger.entry(letter.keys[0]) for letter in letters if not self.is_open(letter, options)]
        return [entry for entry in known if entry is not None and entry.state is not State.SENT]

    def send(self, letters: Sequence[Letter], console: Console) -> list[Delivery]:
        """Send letters, a line for each that was not taken."""
        from gpuadmin.mail.deliver import deliver

        def say(delivery: Delivery) -> None:
            if not delivery.good:
                words = f"{', '.join(delivery.letter.names)} <{delivery.letter.address}>: {delivery.detail}"
                console.print(styled("  ", (f"{delivery.state.value:<8}", "red"), f" {words}"))

        return deliver(letters, self.ledger, self.renderer, self.open_transport, say)

    def write_previews(self, letters: Sequence[Letter]) -> None:
        """--check --mail-dir: the files, but nothing counts as sent."""
        with self.open_transport() as transport:
            for letter in letters:
                transport.send(self.renderer.message(letter))


def mails_document(deliveries: Sequence[Delivery]) -> dict[str, Any]:
    """What became of the mails, as it stands in a run's record."""
    return {"mails": [delivery.document() for delivery in deliveries]}


def perform_mail(
    verb: Verb,
    plan: Plan,
    letters: Sequence[Letter],
    post: Post,
    options: MailOptions,
    result: Mapping[str, Any],
    *,
    nothing: str = "Nobody is to be mailed.",
) -> int:
    """A verb that only sends mail: show the plan, ask, send, record, report. Returns the exit code."""
    from gpuadmin.cli._verb import confirm, require_confirmation_possible
    from gpuadmin.console import make_console, show_plan
    from gpuadmin.errors import ExitCode, GpuadminError
    from gpuadmin.records import Record, prune_runs
    from gpuadmin.report import as_json, document

    site, as_document = verb.site, verb.options.json
    console = make_console(json=as_document)
    show_plan(console, plan, check=post.check)
    if options.preview and not as_document:
        show_letters(letters, post.renderer)

    def finish(
        deliveries: Sequence[Delivery], record: Record | None, code: int, mails: Mapping[str, Any] | None = None
    ) -> int:
        body = document(
            verb.name,
            site=site.directory,
            run=record.id if record is not None else None,
            check=post.check,
            status="failed" if code else "ok",
            result={**(mails or mails_document(deliveries)), **result},
        )
        if record is not None:
            record.finish(body, code)
            prune_runs(site.runs, site.settings.runs.keep)
        if as_document:
            say_document(as_json(body))
        return code

    if not letters:
        console.print(nothing)
        return finish((), None, ExitCode.DONE)
    if post.check:
        # rendered in any case: a template that is wrong is found here, not on the day
        mails = preview_document(letters, post.renderer)
        if options.directory is not None:
            post.write_previews(letters)
        return finish((), None, ExitCode.DONE, mails)
    require_confirmation_possible(verb.options)
    confirm(plan, verb.options)
    record = Record.begin(site.runs, verb.name, arguments=sys.argv[1:], check=False, plan=plan.document())
    try:
        deliveries = post.send(letters, console)
    except GpuadminError as error:
        failed = {**mails_document(()), **result, "error": error.message}
        body = document(verb.name, site=site.directory, run=record.id, check=False, status="failed", result=failed)
        record.finish(body, error.exit_code)
        raise
    bad = [delivery for delivery in deliveries if not delivery.good]
    console.print(f"{len(deliveries) - len(bad)} of {counted(len(deliveries), 'mail')} sent.")
    return finish(deliveries, record, ExitCode.ERROR if bad else ExitCode.DONE)

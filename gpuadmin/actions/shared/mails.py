"""What the verbs that send mail share: the preview, sending, and the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuadmin.actions.shared.pages import guide_pages
from gpuadmin.common.mail.deliver import Delivery, deliver
from gpuadmin.common.mail.ledger import Entry, State
from gpuadmin.common.mail.letter import Letter
from gpuadmin.common.mail.transport import Transport
from gpuadmin.common.text import counted, listed
from gpuadmin.display import join_lines, make_console, styled
from gpuadmin.errors import ExitCode, RefusedError
from gpuadmin.mail.ledger import Ledger
from gpuadmin.mail.render import Renderer, render_text
from gpuadmin.mail.smtp import Smtp
from gpuadmin.mail.transport import Folder
from gpuadmin.options import MailOptions
from gpuadmin.outcome import finish
from gpuadmin.plan import Plan, PlanBuilder
from gpuadmin.reading import expanded
from gpuadmin.session import Session
from gpuadmin.terminal import SafeConsole
from gpuadmin.who import is_timer


def plan_letters(builder: PlanBuilder, letters: Sequence[Letter]) -> None:
    """Add to a plan who gets which mail."""
    for letter in letters:
        builder.add("mail", f"{', '.join(letter.names)} <{letter.address}>: {letter.summary}")


def show_letters(letters: Sequence[Letter], renderer: Renderer) -> None:
    """Print mails as their recipients will read them. What several people get in the same words is printed once."""
    console = make_console(json=False)
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for letter in letters:
        message = renderer.message(letter)
        headers = [(name, str(message[name])) for name in ("From", "Reply-To", "Subject") if message[name] is not None]
        alike.setdefault((*headers, ("", render_text(message))), []).append(str(message["To"]))
    for (*lines, (_, text)), people in alike.items():
        each = f" ({len(people)} mails, one to each)" if len(people) > 1 else ""
        console.print(join_lines(["", f"To: {listed(people)}{each}", *(f"{name}: {words}" for name, words in lines)]))
        console.print(join_lines(["", *text.splitlines()]))


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
                "text": render_text(message),
            }
        )
    return {"mails": mails}


@dataclass(frozen=True)
class Post:
    """The means to send mails. Made before anything is changed, so that a missing password is found in time."""

    renderer: Renderer
    ledger: Ledger
    open_transport: Callable[[], Transport]
    directory: Path | None = None  # --mail-dir, or mail.directory

    @classmethod
    def of(cls, session: Session, options: MailOptions) -> Post:
        """Raises ConfigError if the site says nothing about mail, or not enough; RefusedError where the monitor host
        alone knows who was mailed."""
        site = session.site
        # guard: nobody is mailed from two machines
        if site.settings.is_timed(session.verb) and not session.check and not is_timer():
            raise RefusedError(
                f"{session.verb} is the monitor host's (`timers`): who was mailed is known there alone",
                hint=f"--check looks; to run it now: systemctl start gpuadmin-timer-{session.verb} on the monitor host",
            )
        mail = site.settings.mail
        carried = {"welcome": guide_pages(site)} if mail is not None and mail.attach_guide else {}
        renderer = Renderer(site.settings, site.directory, carried)
        assert mail is not None  # Renderer says so
        if chosen := options.directory or mail.directory:
            directory = expanded(chosen).absolute()
            return cls(renderer, Ledger.of(site.directory), lambda: Folder(directory), directory)
        # made now, so that a missing password is found before anything is changed, and by --check
        server = None if options.preview else Smtp(mail)
        return cls(renderer, Ledger.of(site.directory), lambda: server or Smtp(mail))

    def is_open(self, letter: Letter, options: MailOptions) -> bool:
        """Whether a letter is still to be sent."""
        again = bool({*letter.names, letter.address} & set(options.again))
        return bool(self.ledger.open_keys(letter.keys, letter.address, again))

    def owes(self, letter: Letter, options: MailOptions) -> bool:
        """Whether a letter was decided in an earlier run, and is still to be sent."""
        return self.ledger.entry(letter.keys[0]) is not None and self.is_open(letter, options)

    def stuck(self, letters: Sequence[Letter], options: MailOptions) -> list[Entry]:
        """What the ledger knows of those letters that are not sent although nobody knows that they arrived."""
        known = [self.ledger.entry(letter.keys[0]) for letter in letters if not self.is_open(letter, options)]
        return [entry for entry in known if entry is not None and entry.state is not State.SENT]

    def send(self, letters: Sequence[Letter], console: SafeConsole) -> list[Delivery]:
        """Send letters, a line for each that was not taken."""

        def show_refused(delivery: Delivery) -> None:
            if not delivery.good:
                line = f"{', '.join(delivery.letter.names)} <{delivery.letter.address}>: {delivery.detail}"
                console.print(styled("  ", (f"{delivery.state.value:<8}", "red"), f" {line}"))

        return deliver(letters, self.ledger, self.renderer.message, self.open_transport, show_refused)

    def outcome(self, deliveries: Sequence[Delivery]) -> str:
        """`2 of 3 mails sent.`, or where --mail-dir has written them."""
        good = sum(1 for delivery in deliveries if delivery.good)
        done = "sent" if self.directory is None else f"written to {self.directory}"
        return f"{good} of {counted(len(deliveries), 'mail')} {done}."

    def write_previews(self, letters: Sequence[Letter]) -> None:
        """--check --mail-dir: the files, but nothing counts as sent."""
        with self.open_transport() as transport:
            for letter in letters:
                transport.send(self.renderer.message(letter))


def mails_document(deliveries: Sequence[Delivery]) -> dict[str, Any]:
    """What became of the mails, as a run's record has it."""
    return {"mails": [delivery.document() for delivery in deliveries]}


def perform_mail(
    session: Session,
    plan: Plan,
    letters: Sequence[Letter],
    post: Post,
    options: MailOptions,
    result: Mapping[str, Any],
    *,
    nothing: str = "There is nobody to mail.",
) -> int:
    """A verb that only sends mail: show the plan, ask, send, record, report. Returns the exit code."""
    session.plan(plan)
    if options.preview and not session.options.json:
        show_letters(letters, post.renderer)
    if not letters:
        session.console.print(nothing)
        return finish(session, ExitCode.DONE, {**mails_document(()), **result})
    if session.check:
        # rendered in any case, so that a wrong template is found here, not on the day
        mails = preview_document(letters, post.renderer)
        if options.directory is not None:
            post.write_previews(letters)
        return finish(session, ExitCode.DONE, {**mails, **result})
    session.confirm()
    session.begun()
    session.result = {**mails_document(()), **result}
    deliveries = post.send(letters, session.console)
    session.console.print(post.outcome(deliveries))
    good = all(delivery.good for delivery in deliveries)
    return finish(session, ExitCode.DONE if good else ExitCode.ERROR, {**mails_document(deliveries), **result})

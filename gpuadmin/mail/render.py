"""From a letter to a message. Templates are in templates/mail/; a site's own templates/mail/ comes first."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from gpuadmin.config.schema import Mail, Settings
from gpuadmin.errors import ConfigError
from gpuadmin.mail.letter import Attachment, Letter
from gpuadmin.templates import HINT, Templates

_RULE = "-" * 60


def one_line(value: str, longest: int = 1000) -> str:
    """Given any text, return it as one line of printable characters: nothing in it can end a header or a line."""
    kept = "".join(
        " " if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") else character for character in value
    )
    kept = " ".join(kept.split())
    return kept if len(kept) <= longest else f"{kept[: longest - 1]}…"


def header_text(value: str, longest: int) -> str:
    """The same for a header, where `=?` would begin an encoded word, and that could hold a line's end (RFC 2047)."""
    return one_line(value, longest).replace("=?", "= ?")


class Renderer:
    """Makes messages for one site. `carried`: by template, what its mails carry."""

    def __init__(
        self, settings: Settings, site: Path, carried: Mapping[str, Sequence[Attachment]] | None = None
    ) -> None:
        if settings.mail is None:
            raise ConfigError(
                "gpuadmin.yml: mail: is missing",
                hint="mail: {host: smtp.example.org, sender: gpu@example.org}; gpuadmin schema --reference",
            )
        self._settings, self._mail, self._carried = settings, settings.mail, carried or {}
        self._templates = Templates("mail", site)

    def message(self, letter: Letter, *, now: datetime | None = None) -> EmailMessage:
        """Given a letter, return its message: one mail that carries all the site's languages, or the letter's own.

        Raises ConfigError naming the template that cannot be rendered.
        """
        parts = [self._part(letter, language) for language in letter.languages or self._mail.languages]
        message = EmailMessage(policy=SMTP)
        try:
            message["From"] = Address(header_text(self._settings.name, 100), addr_spec=self._mail.sender)
            message["To"] = Address(addr_spec=letter.address)
            if self._mail.reply_to is not None:
                message["Reply-To"] = Address(addr_spec=self._mail.reply_to)
            message["Subject"] = header_text(" / ".join(dict.fromkeys(subject for subject, _ in parts)), 300)
            message["Date"] = format_datetime(now or datetime.now(UTC))
            message["Message-ID"] = message_id(letter, self._mail)
            message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday notice answers
        except (MessageError, ValueError, IndexError) as error:
            raise ConfigError(f"{letter.address}: no mail can be addressed to it: {error}") from None
        message.set_content(f"\n\n{_RULE}\n\n".join(body for _, body in parts) + "\n", cte="base64")
        for one in self._carried.get(letter.template, ()):
            message.add_attachment(one.html, subtype="html", filename=one.name, cte="base64")
        return message

    def _part(self, letter: Letter, language: str) -> tuple[str, str]:
        name = f"{letter.template}.{language}.j2"
        text = self._templates.rendered(name, self._values(letter))
        head, _, body = text.strip().partition("\n")
        if not head.startswith("Subject: ") or not body.strip():
            raise ConfigError(
                f"templates/mail/{name}:1: must begin with `Subject: …`, an empty line, and the text", hint=HINT
            )
        return head.removeprefix("Subject: "), body.strip("\n")

    def _values(self, letter: Letter) -> dict[str, Any]:
        mail = self._mail
        settings = self._settings
        about = {
            "cluster": settings.name,
            "contact": mail.reply_to or mail.sender,
            "guide": mail.guide,
            "attached": bool(self._carried.get(letter.template)),
            # what a reset of this site deletes, where people see it
            "homes": settings.homes.path,
            "docker_data": settings.docker.data if settings.docker.enabled else None,
            "scratch": settings.reset.scratch,
            "directory": settings.accounts.source == "directory",
        }
        return {name: cleaned(value) for name, value in {**about, **letter.values}.items()}


def render_text(message: EmailMessage) -> str:
    """The text of a message of ours, and the names of what it carries."""
    body = message.get_body(("plain",))
    assert body is not None  # every message of ours has one
    carried = "".join(f"\n[{one.get_filename()}]\n" for one in message.iter_attachments())
    return str(body.get_content()) + carried


def cleaned(value: Any) -> Any:
    """Given what a template is given, return it with every text as one line. Dates stay dates, numbers numbers."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, Mapping):
        return {str(key): cleaned(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [cleaned(item) for item in value]
    if value is None or isinstance(value, bool | int | date):
        return value
    raise TypeError(f"a template is not given a {type(value).__name__}")


def message_id(letter: Letter, mail: Mail) -> str:
    """The same for the same letter, so that a mailbox can drop one that was sent again."""
    digest = hashlib.sha256("\0".join((letter.template, letter.address, *letter.keys)).encode()).hexdigest()
    return f"<{digest[:32]}@{mail.sender.rpartition('@')[2]}>"

"""From a letter to a message. Templates are in templates/mail/; a site's own templates/mail/ comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from gpuadmin.common.mail.letter import Letter
from gpuadmin.common.mail.message import build_message, one_line
from gpuadmin.common.records.mail import Head
from gpuadmin.config.schema import Settings
from gpuadmin.errors import ConfigError
from gpuadmin.mail.letter import Attachment
from gpuadmin.templates import HINT, Templates


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
        head = Head(self._settings.name, self._mail.sender, self._mail.reply_to)
        try:
            message = build_message(letter, head, parts, now)
        except ValueError as error:
            raise ConfigError(str(error)) from None
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

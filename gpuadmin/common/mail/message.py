"""From the words of a mail to a message. Nothing in a word makes a header, or a line of its own."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from datetime import datetime, timezone
from email.errors import MessageError
from email.header import Header
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from ..records.mail import Head
from .letter import Letter

_RULE = "-" * 60


class AddressError(ValueError):
    """No mail can be addressed to it."""


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


def build_message(
    letter: Letter, head: Head, parts: Sequence[tuple[str, str]], now: datetime | None = None
) -> EmailMessage:
    """Given a letter and its parts (a subject and a text in each language), return its message: one mail that carries
    all of them. Raises AddressError."""
    message = EmailMessage(policy=SMTP)
    try:
        message["From"] = Address(header_text(head.name, 100), addr_spec=head.sender)
        message["To"] = Address(addr_spec=letter.address)
        if head.reply_to is not None:
            message["Reply-To"] = Address(addr_spec=head.reply_to)
        subject = header_text(" / ".join(dict.fromkeys(subject for subject, _ in parts)), 300)
        if subject.isascii():
            message["Subject"] = subject
        else:  # EmailMessage itself loses blanks between Korean words (Python 3.9 to 3.13)
            message.set_raw("Subject", Header(subject, "utf-8", header_name="Subject").encode())
        message["Date"] = format_datetime(now or datetime.now(timezone.utc))
        message["Message-ID"] = message_id(letter, head)
        message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday notice answers
    except (MessageError, ValueError, IndexError) as error:
        raise AddressError(f"{letter.address}: no mail can be addressed to it: {error}") from None
    message.set_content(f"\n\n{_RULE}\n\n".join(body for _, body in parts) + "\n", cte="base64")
    return message


def message_id(letter: Letter, head: Head) -> str:
    """The same for the same letter, so that a mailbox can drop one that was sent again."""
    digest = hashlib.sha256("\0".join((letter.template, letter.address, *letter.keys)).encode()).hexdigest()
    return f"<{digest[:32]}@{head.sender.rpartition('@')[2]}>"

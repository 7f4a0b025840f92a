"""Records of mail: the server, what a site's mails begin with, and what the queue's host is told of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Optional


@dataclass(frozen=True)
class MailServer:
    """`ca`: certificates in place of the system's, as text. `user`: without one no login is tried."""

    host: str
    port: int
    security: Literal["starttls", "tls", "none"] = "starttls"
    ca: str = ""
    user: Optional[str] = None
    password: Optional[str] = None


@dataclass(frozen=True)
class Head:
    """What all mails of a site begin with: its name, whom they are from, and where answers go, if elsewhere."""

    name: str
    sender: str
    reply_to: Optional[str] = None


@dataclass(frozen=True)
class QueueMail:
    """How the queue's host tells people of their jobs. `server`, `head`: None where it mails nobody. `kinds`: what
    mails are about. `webhook`: where all of it is posted to, too."""

    languages: Sequence[str] = field(default_factory=lambda: ["en"])
    kinds: Sequence[str] = ()
    server: Optional[MailServer] = None
    head: Optional[Head] = None
    webhook: str = ""

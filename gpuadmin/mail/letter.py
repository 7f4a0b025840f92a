"""What a mail carries, and the hosts that it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuadmin.config.schema import Settings


@dataclass(frozen=True)
class Attachment:
    """A page that a mail carries: an HTML page under a file's name."""

    name: str
    html: str


def login_hosts(settings: Settings, nodes: Sequence[str]) -> list[str]:
    """Given the names of a site's nodes, return what mails tell people to log in to: `mail.login`, or those."""
    return list(settings.mail.login if settings.mail is not None and settings.mail.login else nodes)

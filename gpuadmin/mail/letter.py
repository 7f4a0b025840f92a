"""What a mail carries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Attachment:
    """A page that a mail carries: an HTML page under a file's name."""

    name: str
    html: str

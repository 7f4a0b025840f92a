"""Where messages go: what takes them says of each whether it was taken."""

from __future__ import annotations

from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any, Protocol

from .ledger import State


@dataclass(frozen=True)
class Answer:
    """What became of one message."""

    state: State
    detail: str = ""


class TransportDown(Exception):
    """The server is gone; this message was surely not handed over, and the next ones cannot be."""


class Transport(Protocol):
    """Takes messages, one at a time, within a `with` block."""

    name: str

    def __enter__(self) -> Transport: ...

    def __exit__(self, *_: Any) -> None: ...

    def send(self, message: EmailMessage) -> Answer: ...

"""gpuadmin.node.tell: people on a host read a message on their terminals."""

from __future__ import annotations

from dataclasses import dataclass

from ..answer import Answer
from ..logins import terminals


@dataclass(frozen=True)
class Document:
    """Tell people something on their terminals.

    Writes a message to all terminals that somebody uses, those of ssh and tmux included.
    """

    #: What they read.
    message: str


def operate(document: Document, check: bool) -> Answer:
    return Answer(more={"terminals": 0 if check else terminals.tell(document.message)})

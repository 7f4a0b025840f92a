"""gpuadmin.node.root_session: a read-only root, writable for a block of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..answer import Answer
from ..errors import NodeError
from ..root.session import UNIT, close_session, open_session


@dataclass(frozen=True)
class Document:
    """Hold a read-only btrfs root open for a block of tasks.

    Opens a root that is read-only by its btrfs property, and closes it again (sync, read-only, sync).
    A transient unit ``gpuadmin-root-session.service`` holds the root open, so that it is closed when the lease
    ends, whatever happened to the controller. Opening again while it is active renews the lease.
    Does nothing on hosts with an ordinary root.
    ``ignore:changed`` is always false, since an open root is a passing condition and no configuration.
    """

    #: Whether the root should be open or closed.
    state: Literal["open", "closed"]
    #: Seconds after which the root closes by itself.
    lease: int = 1800


def operate(document: Document, check: bool) -> Answer:
    if check:
        return Answer(more={"session": {"needed": False, "unit": UNIT, "writable": False}})
    if not 10 <= document.lease <= 86400:
        raise NodeError("lease must be between 10 and 86400 seconds")
    session = open_session(document.lease) if document.state == "open" else close_session()
    return Answer(more={"session": session})

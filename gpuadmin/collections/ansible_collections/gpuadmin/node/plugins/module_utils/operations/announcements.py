"""gpuadmin.node.announcements: what people on a host read when they log in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from gpuadmin.common.records.bounds import Size
from gpuadmin.common.records.hosts import Announcement

from ..answer import Answer
from ..logins import announcements
from ..paths import STATE


@dataclass(frozen=True)
class Document:
    """Have announcements that people read when they log in.

    Records the announcements of a host, and shows those that hold now in ``/run/motd.d``.
    The node shows and removes them by itself when their time comes, by ``gpuadmin-announcements.timer``.
    """

    #: All announcements that this host should have; others are taken back.
    entries: Annotated[Sequence[Announcement], Size(50)]
    #: Directory of this node's own state.
    state_directory: str = STATE


def operate(document: Document, check: bool) -> Answer:
    done = announcements.converge(document.entries, check=check, directory=document.state_directory)
    return Answer(done, {"problems": []})

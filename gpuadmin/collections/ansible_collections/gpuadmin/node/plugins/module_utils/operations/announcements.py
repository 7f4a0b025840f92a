"""gpuadmin.node.announcements: what people on a host read when they log in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ..answer import Answer
from ..logins import announcements
from ..logins.announcements import Announcement
from ..paths import STATE


@dataclass(frozen=True)
class Document:
    """Have announcements that people read when they log in.

    Records the announcements of a host, and shows those that hold now in ``/run/motd.d``.
    The node shows and removes them by itself when their time comes, by ``gpuadmin-announcements.timer``.
    """

    #: All announcements that this host should have; others are taken back.
    entries: Sequence[Announcement]
    #: Directory of this node's own state.
    state_directory: str = STATE


def operate(document: Document, check: bool) -> Answer:
    wanted = announcements.parse([asdict(one) for one in document.entries])
    done = announcements.converge(wanted, check=check, directory=document.state_directory)
    return Answer(done, {"problems": []})

"""gpuadmin.node.sessions: ending what people still run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from gpuadmin.common.records.people import PersonEntry

from .. import people
from ..answer import Answer
from ..logins import sessions


@dataclass(frozen=True)
class Document:
    """End people's sessions, containers and leftovers, and make sure that nothing is left.

    Tells everybody on their terminals, waits, and ends linger, sessions, user managers with their containers,
    and leftovers.
    Fails for whoever still runs something afterwards. Nobody else is touched.
    """

    #: The people. Names and uids differ, and ranges of subordinate ids do not overlap. Where one of them is
    #: refused nothing is done for anybody, because who owns what would not be certain.
    people: Sequence[PersonEntry]
    #: What terminals show before the grace time.
    message: str = ""
    #: Seconds between the message and the end; shorter when nobody is left.
    grace: int = 0


EACH = "sessions"


def operate(document: Document, check: bool) -> Answer:
    found = people.parse(map(asdict, document.people))
    plan = sessions.converge(
        found,
        message=document.message,
        grace=document.grace,
        check=check,  # guard: check mode ends no sessions -> False
    )
    return Answer.of(plan)

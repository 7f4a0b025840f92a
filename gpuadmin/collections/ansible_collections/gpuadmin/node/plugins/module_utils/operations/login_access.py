"""gpuadmin.node.login_access: those who leave cannot log in, and their jobs do not run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, Optional

from gpuadmin.common.records.people import PersonEntry

from .. import people
from ..answer import Answer
from ..logins import access
from ..paths import STATE


@dataclass(frozen=True)
class Document:
    """Keep people's jobs and lingering managers from running, and prove that they cannot log in.

    Ends lingering, moves cron and at jobs to the state directory and cancels what waits in Slurm's queue.
    Then fails for whoever could still come in. With ``open`` the jobs come back.
    """

    #: The people. Names and uids differ, and ranges of subordinate ids do not overlap. Where one of them is
    #: refused nothing is done for anybody, because who owns what would not be certain.
    people: Sequence[PersonEntry]
    #: Whether to keep people out.
    state: Literal["closed", "open"] = "closed"
    #: Whether people log in to this host at all.
    login: bool = True
    #: Where accounts come from a directory, the group whose members may log in.
    group: Optional[str] = None
    #: Directory of this node's own state.
    state_directory: str = STATE


EACH = "login_access"


def operate(document: Document, check: bool) -> Answer:
    host = access.Host(state=document.state_directory, group=document.group)
    found = people.parse(map(asdict, document.people))
    plan = access.converge(
        found,
        document.state == "closed",
        host,
        check=check,  # guard: check mode closes no login access -> False
        login=document.login,
    )
    return Answer.of(plan)

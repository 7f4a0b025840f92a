"""gpuadmin.node.docker_restart: restart somebody's own Docker daemon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ..accounts.docker_restart import restart
from ..answer import Answer


@dataclass(frozen=True)
class Document:
    """Restart somebody's own Docker daemon.

    Stops the daemon and makes its socket again, through the person's own user manager.
    Running containers end. The daemon starts with the next command that asks it.
    Where the person has no user manager, nothing of theirs runs, and nothing is done.
    """

    #: Whose daemon.
    name: str
    #: The uid that the person has by the site. Somebody with another one is refused.
    uid: Optional[int] = None


def operate(document: Document, check: bool) -> Answer:
    done = restart(
        document.name,
        document.uid,
        check=check,  # guard: the operation restarts no daemon in a check -> False
    )
    return Answer(report={"docker_restart": done["words"]}, changed=done["changed"])

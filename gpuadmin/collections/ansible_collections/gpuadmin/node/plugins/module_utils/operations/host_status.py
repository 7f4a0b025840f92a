"""gpuadmin.node.host_status: what an admin wants to know of a host every day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Optional

from .. import status
from ..answer import Answer


@dataclass(frozen=True)
class Disk:
    name: str
    path: str


#: A task of this role need not name a field that the role has a variable for.
ROLE = "node_state"


@dataclass(frozen=True)
class Document:
    """What an admin wants to know of a host every day.

    Looks at who is on the host, its GPUs, disks, newest backup and image, as far as the arguments name them.
    A part that cannot be looked at is reported as unknown, with the reason; the others are answered.
    It changes nothing, and waits for no file server that is away.
    """

    #: First uid of people.
    uid_first: int
    #: Last uid of people.
    uid_last: int
    #: Disks to look at.
    disks: Sequence[Disk] = ()
    #: Directory of backups, where this host has one.
    backups: Optional[str] = None
    #: Whether people log in here; then there are people, GPUs and images to look at.
    node: bool = False
    #: Whether Slurm's controller is here; then there are nodes that take no jobs.
    queue: bool = False


#: It looks, and changes nothing.
LOOKS = True


def operate(document: Document, check: bool) -> Answer:
    disks = {one.name: one.path for one in document.disks}
    return Answer(report={"status": status.collect(**{**asdict(document), "disks": disks})})

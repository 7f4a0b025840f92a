"""gpuadmin.node.homes_release: a node lets the homes go, before their server is switched off."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from .. import power
from ..answer import Answer


@dataclass(frozen=True)
class Document:
    """End what people run, and unmount the homes until the next boot.

    Ends what people still run on the host, containers included, and unmounts the homes and their automount.
    Fails where they are still mounted afterwards. The next boot mounts them again.
    """

    #: Where the homes are mounted.
    path: str
    #: First uid of people.
    uid_first: int
    #: Last uid of people.
    uid_last: int


def operate(document: Document, check: bool) -> Answer:
    return Answer(power.release(**asdict(document), check=check), {"problems": []})

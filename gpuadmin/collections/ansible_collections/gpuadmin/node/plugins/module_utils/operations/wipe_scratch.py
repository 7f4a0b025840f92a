"""gpuadmin.node.wipe_scratch: wiping what people leave on a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional

from .. import background, people
from ..answer import Answer
from ..documents import PersonEntry
from ..wipe import scratch
from ..wipe.jobs import wipe_scratch


@dataclass(frozen=True)
class Item:
    directory: str
    name: str
    uid: int
    inode: int
    user: str
    kind: Optional[str] = None
    bytes: Optional[int] = None


@dataclass(frozen=True)
class Document:
    """Wipe people's Docker data and scratch on a node.

    Takes the entries that were decided; each goes only if it is still the same thing of the same owner.
    What belongs to somebody else stays, also inside of an entry that goes. Nothing of this is in a backup.
    The work runs in the unit ``gpuadmin-wipe-scratch.service``, which goes on when the controller is
    interrupted.
    """

    #: The people. Names and uids differ, and ranges of subordinate ids do not overlap. Where one of them is
    #: refused nothing is done for anybody, because who owns what would not be certain.
    people: Sequence[PersonEntry]
    #: What goes, as ``gpuadmin.node.term_facts#module:report`` has them. An entry that is not the same any
    #: more, or that nobody of ``people`` owns, is reported and stays; the others go.
    items: Sequence[Item]
    #: The directories in which anything may go at all.
    directories: Sequence[str]


EACH = "scratch"


def operate(document: Document, check: bool) -> Answer:
    given = asdict(document)
    if check:  # guard: check mode wipes no scratch
        request = scratch.Request(given["items"], given["directories"], people.parse(given["people"]))
        return Answer.of(scratch.observe_and_compute(request), deleted={})
    done: Any = background.perform("wipe-scratch", wipe_scratch, given)
    return Answer(done["operations"], {**done["report"], "deleted": done["done"]}, done["conflicts"])

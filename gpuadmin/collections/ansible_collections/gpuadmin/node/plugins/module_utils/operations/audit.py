"""gpuadmin.node.audit: which machine a host is and what is in it; and what people's files others can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..answer import Answer
from ..exposed import collect, local_homes
from ..hardware import collect as hardware

#: A task of this role need not name a field that the role has a variable for.
ROLE = "node_state"


@dataclass(frozen=True)
class Document:
    """Which machine a host is and what is in it; and private keys that others can read.

    Files are looked at by name, mode and owner, and never opened. What others cannot enter is not walked, and no link
    is followed. It changes nothing.
    """

    #: Directories with one of each person's in them, besides homes of the host's own accounts. A home on a file server
    #: is looked at there.
    people: Sequence[str] = ()


#: It looks, and changes nothing.
LOOKS = True


def operate(document: Document, check: bool) -> Answer:
    exposed = collect(document.people, local_homes(document.people))
    return Answer(report={"hardware": hardware(), "exposed": exposed})

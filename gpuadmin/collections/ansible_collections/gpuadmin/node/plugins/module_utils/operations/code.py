"""gpuadmin.node.code: the node code on a host, as this controller has it."""

from __future__ import annotations

from dataclasses import dataclass

from .. import code_cache, compiled
from ..answer import Answer
from ..paths import STATE


@dataclass(frozen=True)
class Document:
    """The node code on a host, as this controller has it.

    All code of this collection, and what it needs of Ansible's, is in a directory that bears the code's digest. It has
    its name when all of it is on disk, and no source is written again. What units run is compiled, and nobody waits for
    that. Operations are run from it, and so is what units start, through a link. An action plugin gives ``digest``, and
    sends the code where it is missing. Having the directory is not a change of the host, because any module's call may
    have brought it. Running it at boot is.
    """

    #: sha256 of the code, in hex.
    digest: str | None = None
    #: Whether units run this code from now on.
    link: bool = False
    #: Whether it is the code with that of the take-over, for units of its own.
    takeover: bool = False
    #: Directory of this node's own state.
    state_directory: str = STATE


def operate(document: Document, check: bool) -> Answer:
    digest, state = str(document.digest), document.state_directory
    name = code_cache.TAKEOVER_LINK if document.takeover else code_cache.LINK
    missing = not code_cache.has(digest, state)
    linking = document.link and not code_cache.linked(digest, state, name)
    if (
        document.link  # guard: units run other code only where somebody asks for that
        and not missing  # guard: units are not led to code that is not there
        and not check  # guard: a look lets units run what they ran
    ):
        code_cache.link(digest, state, name=name)
        place = code_cache.place(digest, state)
        compiled.later(place, lambda: compiled.every(place))
    operations = [f"install the node code {digest[:12]}"] if linking else []
    return Answer(operations, more={"missing": missing})

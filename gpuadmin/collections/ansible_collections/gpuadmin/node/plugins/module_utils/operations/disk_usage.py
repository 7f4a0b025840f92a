"""gpuadmin.node.disk_usage: what people's files take on a host's disks, as it was measured last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..answer import Answer
from ..disk.command import report
from ..disk.records import in_state
from ..paths import STATE


@dataclass(frozen=True)
class Document:
    """What people's files take on a host's disks, as it was measured last.

    Reads what ``gpuadmin-disk-usage.service`` measured; nothing is walked for it.
    It changes nothing.
    """

    #: Only these people; empty for everybody.
    names: Sequence[str] = ()
    #: Directory of this node's own state.
    state_directory: str = STATE


#: It looks, and changes nothing.
LOOKS = True


def operate(document: Document, check: bool) -> Answer:
    state = document.state_directory
    return Answer(report={"disk": report(state, in_state(state), document.names)})

"""gpuadmin.node.measured: what the collector of a node has written just now."""

from __future__ import annotations

from dataclasses import dataclass

from ..answer import Answer
from ..errors import NodeError
from ..metrics.measured import report


@dataclass(frozen=True)
class Document:
    """What the collector of a node has written just now.

    Reads what the collector has for the node exporter, and the host's load and memory.
    It changes nothing.
    """


#: It looks, and changes nothing.
LOOKS = True


def operate(document: Document, check: bool) -> Answer:
    try:
        return Answer(report=report())
    except ValueError as error:
        raise NodeError(str(error)) from error

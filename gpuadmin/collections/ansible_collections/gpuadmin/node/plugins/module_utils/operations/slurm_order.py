"""gpuadmin.node.slurm_order: whether a node's slurmd may speak to this host's slurmctld."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from ..answer import Answer
from ..errors import NodeError
from ..slurm import queue

#: It looks, and changes nothing.
LOOKS = True


@dataclass(frozen=True)
class Document:
    """Fail where a node's slurmd is of a newer release than Slurm's controller, which does not understand it.

    Asked of the controller's host. Where it has none yet, nothing is said.
    """

    #: The release of the node's slurmd, such as [24, 11]. Null: it has none.
    slurmd: Optional[Sequence[int]] = None


def operate(document: Document, check: bool) -> Answer:
    mine = queue.version("slurmctld")
    # guard: a node's slurmd is not newer than Slurm's controller
    if mine is not None and document.slurmd is not None and list(document.slurmd) > mine:
        node, here = (".".join(f"{part:02}" for part in one) for one in (document.slurmd, mine))
        raise NodeError(
            f"the node's slurmd is of Slurm {node}, and the queue's controller of {here}: upgrade slurmdbd and "
            "slurmctld there first, in this order, or bring the node back to its image before"
        )
    return Answer()

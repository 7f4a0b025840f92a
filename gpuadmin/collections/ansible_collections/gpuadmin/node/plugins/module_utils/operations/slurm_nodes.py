"""gpuadmin.node.slurm_nodes: what slurmctld knows of nodes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..answer import Answer
from ..errors import NodeError
from ..files import read_bytes, write_atomic
from ..paths import STATE
from ..slurm import nodes
from . import files

ROLE = "slurm_controller"
RECORD = "slurm-nodes.json"


@dataclass(frozen=True)
class DeclaredNode:
    name: str
    address: str
    #: How many GPUs the inventory says that it has.
    gpus: int | None = None


@dataclass(frozen=True)
class Document:
    """Write nodes.conf and gres.conf.

    What nodes have is recorded in the controller's state, so that a run that looks at one of them does not take the
    others out. A node that nobody has looked at yet is left out.
    """

    #: The nodes that jobs run on.
    nodes: Sequence[DeclaredNode]
    #: Node → ``processors``, ``memory`` (MiB) and ``gpus``, of those that this run has looked at.
    hardware: Any
    #: The longest job of all groups.
    hours: int
    #: Where nodes reach the controller, which is this host.
    address: str
    directory: str = "/etc/slurm"
    #: Commands to run when something has changed.
    after: Sequence[Sequence[str]] = ()


def operate(document: Document, check: bool, state: str = STATE) -> Answer:
    path = os.path.join(state, RECORD)
    try:
        before = json.loads(read_bytes(path) or b"{}")
        if not isinstance(before, dict):
            raise ValueError("it is no mapping")
    except ValueError as error:
        raise NodeError(f"{path} is damaged: {error}; remove it, then gpuadmin provision") from None
    now = {name: has for name, has in dict(document.hardware or {}).items() if isinstance(has, dict)}
    found = nodes.known([asdict(one) for one in document.nodes], before, now)
    if not found:
        raise NodeError("no node has said yet what it has: gpuadmin provision, without --limit")
    record = {
        one.name: {
            "processors": one.processors,
            "memory": one.memory,
            "gpus": (now.get(one.name) or before[one.name]).get("gpus"),
        }
        for one in found
    }
    if record != before and not check:
        write_atomic(path, json.dumps(record, indent=1).encode(), mode=0o644)
    wanted = [
        files.WantedFile(
            f"{document.directory}/nodes.conf",
            nodes.nodes_conf(found, document.hours, (os.uname().nodename, document.address)),
        ),
        files.WantedFile(f"{document.directory}/gres.conf", nodes.gres_conf(found)),
    ]
    return files.operate(files.Document(files=wanted, after=document.after), check)

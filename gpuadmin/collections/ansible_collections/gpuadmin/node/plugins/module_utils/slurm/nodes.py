"""What slurmctld is told of nodes: a line for each that has said what it has. Pure.

A node of which nothing is known yet is left out: it joins with its first `provision`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuadmin.common.names import SLURM_WORDS, name_gpu_type
from gpuadmin.common.records.queue import Owns

from ..errors import NodeError
from ..fields import quoted, whole_number
from . import partitions
from .divided import Part, parts

#: Of a node's memory jobs get so much; the rest is the system's.
FOR_JOBS = 0.95
#: The type of a whole GPU beside MIG devices where nobody says what it is: Slurm takes types of all or of none.
WHOLE = "whole"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,252}\Z")
HEAD = "# Managed by gpuadmin.\n"


@dataclass(frozen=True)
class Node:
    """A node that jobs run on. ``memory``: MiB. ``type``: of all its GPUs; empty: they
    differ, or it is not known. ``parts``: where some are divided, all that jobs can have, in Slurm's order."""

    name: str
    address: str
    processors: int
    memory: int
    gpus: int
    type: str = ""
    parts: Sequence[Part] = ()

    @property
    def kinds(self) -> dict[str, int]:
        """Type of what jobs can have → how many. Whole GPUs beside MIG devices have one, too."""
        if not self.parts:
            return {self.type: self.gpus} if self.gpus else {}
        return dict(Counter(one.profile or self.type or WHOLE for one in self.parts))


def known(
    declared: Iterable[Mapping[str, object]], before: Mapping[str, object], now: Mapping[str, object]
) -> list[Node]:
    """The nodes with what they have: as they say now, or as was recorded of them before. What the inventory says of
    GPUs (``gpus``) wins. Raises NodeError for what is not a node.
    """
    found = []
    for one in declared:
        name, address = one.get("name"), one.get("address")
        # guard: no line for Slurm is made of a name
        if not isinstance(name, str) or not _NAME.match(name) or name.upper() in SLURM_WORDS:
            raise NodeError(f"{quoted(name)} cannot be the name of a node in Slurm")
        # guard: no line for Slurm is made of an address
        if not isinstance(address, str) or not _ADDRESS.match(address):
            raise NodeError(f"{name}: {quoted(address)} is not an address")
        has = now.get(name) or before.get(name)
        if not isinstance(has, Mapping):
            continue
        processors, memory = whole_number(has.get("processors")), whole_number(has.get("memory"))
        gpus = whole_number(one.get("gpus") if one.get("gpus") is not None else has.get("gpus"))
        if not processors or not memory or gpus is None or gpus < 0:
            continue
        model = one.get("model") or has.get("model")
        there: Sequence[Part] = parts(has.get("parts"))
        # guard: MIG devices are given to jobs only where all GPUs are there
        if len({part.files[0] for part in there}) != gpus:
            there = ()
        type = name_gpu_type(model) if isinstance(model, str) else ""
        found.append(Node(name, address, processors, memory, gpus, type, there))
    return found


def nodes_conf(
    nodes: Sequence[Node], hours: int, controller: tuple[str, str],
    owned: Sequence[Owns] = (), notice: int = 5, preempted: str = "requeue",
) -> str:  # fmt: skip
    """The controller (its host name and address), the nodes, and the partitions. A job gets its share
    of a node for each processor and GPU. Hours of GPUs count as used; so does taking a GPU's share of processors or
    memory without it, whichever is most (PriorityFlags=MAX_TRES in slurm.conf). Raises NodeError."""
    lines = [
        f"NodeName={one.name} NodeAddr={one.address} CPUs={one.processors} RealMemory={int(one.memory * FOR_JOBS)}"
        + (f" Gres={','.join(_gres(type, number) for type, number in one.kinds.items())}" if one.kinds else "")
        + " State=UNKNOWN\n"
        for one in nodes
    ]
    # also of jobs without GPUs, which would have a node's whole memory if nothing were said
    memory = max(1, min(int(one.memory * FOR_JOBS) // one.processors for one in nodes))
    share, weights = f" DefMemPerCPU={memory}", "GRES/gpu=1.0"
    if dividing := [one for one in nodes if one.gpus]:
        processors = max(1, min(one.processors // sum(one.kinds.values()) for one in dividing))
        share += f" DefCpuPerGPU={processors}"
        # guard: what keeps a GPU from others counts as that GPU -> weights
        weights = f"CPU={1 / processors:.6f},Mem={1024 / (memory * processors):.6f}G,{weights}"
    rest = f"MaxTime={hours}:00:00 DefaultTime=1:00:00 TRESBillingWeights={weights}{share}"
    lines += partitions.format_partitions({one.name: one.type for one in nodes}, owned, notice, preempted, rest)
    if not all(_ADDRESS.match(one) for one in controller):  # guard: no line for Slurm is made of a controller's name
        raise NodeError(f"{quoted(controller)} is not a host and its address")
    return f"{HEAD}SlurmctldHost={controller[0]}({controller[1]})\n" + "".join(lines)


def _gres(type: str, number: int) -> str:
    return f"gpu:{type}:{number}" if type else f"gpu:{number}"


def gres_conf(nodes: Sequence[Node]) -> str:
    """Slurm numbers what it gives by the order of these lines; a prolog is told the number (divided.py)."""
    lines = []
    for one in nodes:
        for part in one.parts:
            files = f"MultipleFiles={','.join(part.files)}" if part.profile else f"File={part.files[0]}"
            lines.append(f"NodeName={one.name} Name=gpu Type={part.profile or one.type or WHOLE} {files}\n")
        if one.gpus and not one.parts:
            kind = f" Type={one.type}" if one.type else ""
            path = f"/dev/nvidia[0-{one.gpus - 1}]" if one.gpus > 1 else "/dev/nvidia0"
            lines.append(f"NodeName={one.name} Name=gpu{kind} File={path}\n")
    return HEAD + "".join(lines)

"""The cluster as the monitor host tells it to its nodes: what everybody with an account may know of all GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from .bounds import When


@dataclass(frozen=True)
class GpuPerson:
    """Who holds a GPU or was granted it, and until when; None: no grant says it."""

    name: str
    until: Optional[When] = None


@dataclass(frozen=True)
class GpuNow:
    """A GPU or MIG device. `state`: free, held, granted (and not held), lost or unknown. `use`: ratio; sizes: bytes."""

    index: str
    name: str
    state: str
    use: Optional[float] = None
    memory: Optional[float] = None
    memory_used: Optional[float] = None
    people: Sequence[GpuPerson] = ()


@dataclass(frozen=True)
class NodeNow:
    """A node. `state`: up, down, silent or unknown. `known`: whether its GPUs are; of a node that is not up none is."""

    name: str
    state: str
    known: bool = True
    gpus: Sequence[GpuNow] = ()


@dataclass(frozen=True)
class ClusterNow:
    when: When
    nodes: Sequence[NodeNow]

"""Limits of what one person may take of a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class OwnLimits:
    """Limits of certain people; None: as everybody's."""

    names: Sequence[str]
    memory: Optional[str] = None
    swap: Optional[str] = None
    tasks: Optional[str] = None
    processors: Optional[str] = None
    processor_weight: Optional[int] = None


@dataclass(frozen=True)
class NodeLimits:
    """Limit what one person may take of a node.

    Records the limits in the node's state, writes them where systemd reads them until the next boot, and brings them
    into force for what runs. Then it reads in the kernel whether they are; the module fails where they are not.
    """

    #: Memory, swap and tasks of one person: a share of the node's (``80%``), an amount, or ``unlimited``.
    memory: str
    swap: str
    tasks: str
    #: At most so many processors.
    processors: str
    #: The share of processors against other people's.
    processor_weight: int
    #: Limits of certain people; the later ones win.
    people: Sequence[OwnLimits] = ()
    #: The account that nothing limits, beside root.
    admin: Optional[str] = None
    #: False: nobody is limited, and what was written goes. What limits.json has is in force.
    enabled: bool = True

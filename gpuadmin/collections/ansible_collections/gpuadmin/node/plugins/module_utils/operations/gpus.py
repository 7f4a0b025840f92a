"""gpuadmin.node.gpus: the GPUs of a node, and whether they are as they should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ..answer import Answer
from ..gpus.judge import Expected, judge
from ..gpus.look import look


@dataclass(frozen=True)
class Document:
    """The GPUs of a node, and whether they are as they should be.

    Looks at the PCI bus, at the files of NVIDIA's driver, at what its management library (NVML) says of every
    GPU, and at the kernel's log.
    NVML is asked in a process apart, which is given up after ``seconds``. A driver that hangs is reported.
    It changes nothing.
    """

    #: How many GPUs the node should have; without it their number is not judged.
    expected: Optional[int] = None
    #: What the names of all of them should have in them.
    model: str = ""
    #: How long the driver may take to answer.
    seconds: int = 20


#: It looks, and changes nothing.
LOOKS = True


def operate(document: Document, check: bool) -> Answer:
    seen = look(seconds=document.seconds)
    verdict = judge(seen, Expected(document.expected, document.model))
    found = {**seen.to_report(), "answering": verdict.answering, "broken": verdict.broken, "worse": verdict.worse}
    return Answer(report={"gpus": found})

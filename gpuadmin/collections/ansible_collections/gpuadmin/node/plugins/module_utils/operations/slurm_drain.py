"""gpuadmin.node.slurm_drain: nodes that take no further jobs, and nodes that take jobs again."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from ..answer import Answer
from ..slurm import queue
from ..slurm.draining import Wanted, bring
from . import slurm_queue

ROLE = "slurm_controller"


@dataclass(frozen=True)
class Document:
    """Let nodes take no further jobs, or take jobs again. What runs there goes on."""

    drain: Wanted


def operate(document: Document, check: bool) -> Answer:
    wanted = document.drain
    if wanted.mark and shutil.which("scontrol") is None:
        return Answer()  # there is no queue on this host yet, so it starts no job
    try:
        queue.alive()
    except queue.AwayError:
        # guard: where Slurm's controller does not answer a node is taken away by force alone
        if not (wanted.mark and wanted.force):
            raise
        return Answer(more={"remarks": ["the queue does not answer: a job may start there meanwhile"]})
    changing = bring(wanted, check=check)
    done = [f"{name}: takes jobs again" if wanted.resume else f"{name}: takes no further job" for name in changing]
    report = slurm_queue.report()
    jobs = [words for name in wanted.nodes for words in queue.on(report["queue"]["jobs"], name)]
    if wanted.empty and jobs and not wanted.force:
        in_use = f"in use by {', '.join(jobs)}"
        return Answer(done, report, problem=in_use, more={"progress": f"waits: {in_use}"})
    return Answer(done, report)

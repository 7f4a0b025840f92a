"""gpuadmin.node.image_job: one job on a node's images and roots."""

from __future__ import annotations

from gpuadmin.common.records.images import ImageOrder as Document

from .. import background
from ..answer import Answer
from ..images import jobs


def operate(document: Document, check: bool) -> Answer:
    job = jobs.job(document)
    if check:
        return Answer([job.title], more={"finished": True})
    done = background.attend(job, f"{document.run_id} {document.action}", document.wait)
    if done is None:
        return Answer(more={"finished": False, "progress": background.progress(job)})
    if done.problem is not None:
        return Answer(problem=done.problem)
    return Answer(done.value["operations"], done.value.get("report", {}), more={"finished": True})

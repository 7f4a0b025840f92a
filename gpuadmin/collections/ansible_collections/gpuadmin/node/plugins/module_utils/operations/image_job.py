"""gpuadmin.node.image_job: one job on a node's images and roots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, Optional

from gpuadmin.common.records.images import ChainLink

from .. import background
from ..answer import Answer
from ..images import jobs


@dataclass(frozen=True)
class Options:
    full: Optional[bool] = None
    deadline: Optional[int] = None
    keep: Optional[int] = None
    packages: Optional[Sequence[str]] = None
    upgrade: Optional[bool] = None
    trial: Optional[bool] = None
    parents: Optional[Sequence[str]] = None
    who: Optional[str] = None
    protocol: Optional[int] = None
    manifest: Optional[str] = None
    signature: Optional[str] = None


@dataclass(frozen=True)
class Document:
    """Run a job on a node's images and roots.

    Has the unit ``gpuadmin-image.service`` on the node do one job, and waits for it.
    The unit outlives the controller; the same request, made again while it runs, waits for it.
    """

    #: What to do.
    action: Literal["push", "rollback", "prune", "build", "finish", "seal", "publish"]
    #: An id of this run of gpuadmin, the same in every call. It tells this run's job from an earlier one's.
    run_id: str
    #: The image.
    name: Optional[str] = None
    #: The node's place in the chain, for ``action=push``; without it there is none.
    link: Optional[ChainLink] = None
    #: What else the action needs.
    options: Options = Options()
    #: Seconds after which this returns, ``finished`` or not. It is called again until it is.
    wait: int = 5


def operate(document: Document, check: bool) -> Answer:
    asked = {**asdict(document.options), "link": None if document.link is None else asdict(document.link)}
    options = {key: value for key, value in asked.items() if value is not None}
    job = jobs.job({"action": document.action, "name": document.name, **options})
    if check:
        return Answer([job.title], more={"finished": True})
    done = background.attend(job, f"{document.run_id} {document.action}", document.wait)
    if done is None:
        return Answer(more={"finished": False, "progress": background.progress(job)})
    if done.problem is not None:
        return Answer(problem=done.problem)
    return Answer(done.value["operations"], done.value.get("report", {}), more={"finished": True})

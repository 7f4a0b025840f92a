"""gpuadmin.node.image_job: one job on a node's images and roots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from .. import background
from ..answer import Answer
from ..documents import ChainLink
from ..images import jobs


@dataclass(frozen=True)
class Options:
    full: bool | None = None
    deadline: int | None = None
    keep: int | None = None
    packages: Sequence[str] | None = None
    upgrade: bool | None = None
    trial: bool | None = None
    parents: Sequence[str] | None = None
    who: str | None = None
    protocol: int | None = None
    manifest: str | None = None
    signature: str | None = None


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
    name: str | None = None
    #: The node's place in the chain, for ``action=push``; without it there is none.
    link: ChainLink | None = None
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

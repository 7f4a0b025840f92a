"""The place of a person in the queue for GPUs, and their jobs: asked of Slurm when they ask, within seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from ..diagnosis.subject import Subject
from ..slurm import gpu_here, queue
from ..slurm.gpu_words import clock, describe_asked, gpus, lost, waiting
from ..slurm.policy import PATH
from ..slurm.texts import LOGIN, TEXTS


def has_queue(subject: Subject) -> bool:
    """Whether this node has a queue that people ask."""
    return os.path.exists(subject.path(PATH))


def has_self_service(subject: Subject) -> bool:
    """Whether people take free GPUs of this node themselves, by `gpu get`."""
    return gpu_here.read_rule(subject.path(gpu_here.RULE)) is not None


def find_place(subject: Subject) -> dict[str, Any] | None:
    """The queue. ``mine``: the person's jobs with GPUs; ``waiting``: how many people wait; ``closed``:
    node → why it takes no jobs. None on a node without jobs.

    Raises NodeError where the queue does not answer.
    """
    if not has_queue(subject):
        return None
    queue.alive()
    jobs = [one for one in queue.ask_jobs() if one["gpus"]]
    return {
        "mine": [one for one in jobs if one["user"] == subject.name],
        "closed": queue.closed(),
        "waiting": len({one["user"] for one in jobs if one["waits"]}),
    }


def lines(found: Mapping[str, Any], language: str) -> Iterator[str]:
    """The lines to print, one for each job: GPUs and until when; or the place in the queue, since when, and why."""
    words, login = TEXTS[language], LOGIN[language]
    for one in found["mine"]:
        if one["waits"]:
            since = words["since"].format(clock(one["asked"]))
            yield f"{login['wait'].format(describe_asked(one, words), waiting(one, language))} ({since})"
        else:
            yield login["have"].format(login["part"].format(gpus(one["gpus"], words), one["nodes"], clock(one["end"])))
    yield from lost(found["mine"], found.get("closed") or {}, login)
    if not found["mine"]:
        none = login["waiting"].format(found["waiting"]) if found["waiting"] else login["nobody"]
        yield f"{none} {login['ask']}"

"""What people read of the queue when they log in. A node asks every minute and keeps it, so that no login waits; and
grants get the ends that their jobs have by then.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from gpuadmin.common.turns import ENDS

from ..errors import NodeError, in_words
from ..fields import valid_name
from ..files import flocked, read_bytes, write_atomic
from ..gpus import grants, reconcile
from ..gpus.gate import Places
from . import job_turns, queue
from .gpu_words import clock, describe_asked, gpus, lost, waiting
from .texts import LANGUAGES, LOGIN

DIRECTORY = "/run/gpuadmin-queue"
#: What everybody reads who has no file of their own; no name of a person begins with a dot.
NOBODY, LAST, ENDED = ".nobody", ".jobs.json", ".ended.json"
EVERY_NODE_OPEN: Mapping[str, str] = {}
MOST_JOBS, MOST_ENDED = 3, 2  # of one person's, in a line; and lines
DAY = 86400


def texts(
    jobs: Sequence[Mapping[str, Any]], now: float, away: bool = False, closed: Mapping[str, str] = EVERY_NODE_OPEN,
    ended: Mapping[str, Sequence[Any]] = MappingProxyType({}),
) -> dict[str, str]:  # fmt: skip
    """File → two lines, one for each node of theirs with lost GPUs, and for what has ended lately. ``away``: the queue
    does not answer, and the jobs are those that it last spoke of. ``closed``: node → why it takes no jobs. ``ended``:
    job → whose it was, why and when it ended."""
    asking = [one for one in jobs if one["gpus"]]
    of: dict[str, list[Mapping[str, Any]]] = {}
    for one in asking:
        if not valid_name(one["user"]):  # guard: what is not a name becomes no file
            continue
        of.setdefault(one["user"], []).append(one)
    wait = len({one["user"] for one in asking if one["waits"]})
    found = {}
    for language in LANGUAGES:
        words = LOGIN[language]
        last = words["away"] if away else words["ask"]
        none = words["none"] if away else words["waiting"].format(wait) if wait else words["nobody"]
        found[f"{NOBODY}.{language}"] = f"{none}\n{last}\n"
        for name in dict.fromkeys([*of, *(user for user, _, _ in ended.values() if valid_name(user))]):
            mine = of.get(name, [])
            over = [(at, job, ENDS[why][language == "ko"]) for job, (user, why, at) in ended.items() if user == name]
            told = [words["ended"].format(job, clock(at, now), why) for at, job, why in sorted(over)[-MOST_ENDED:]]
            own = [*_own(mine, now, language, away), *lost(mine, closed, words)]
            lines = [*(own or ([none, last] if told else [])), *told]
            if lines:
                found[f"{name}.{language}"] = "\n".join(lines) + "\n"
    return found


def _own(mine: Sequence[Mapping[str, Any]], now: float, language: str, away: bool) -> list[str]:
    words = LOGIN[language]
    # guard: nobody reads of a GPU that is no longer theirs -> [one for one in mine if not one["waits"]]
    has = [one for one in mine if not one["waits"] and (one["end"] is None or one["end"] > now)]
    waits = [] if away else [one for one in mine if one["waits"]]
    lines = []
    if has:
        parts = [
            words["part"].format(gpus(one["gpus"], words), one["nodes"], clock(one["end"], now))
            for one in has[:MOST_JOBS]
        ]
        lines.append(words["have"].format("; ".join(parts)))
    if waits:
        lines.append(words["wait"].format(describe_asked(waits[0], words), waiting(waits[0], language)))
    if lines:
        lines.append(words["away"] if away else words["why"] if waits else words["more"])
    return lines[:2]


def main(directory: str = DIRECTORY, places: Places | None = None) -> int:
    """Ask once, and keep what each person reads. Exit 0, also where the queue does not answer: that is said."""
    where = places or Places()
    os.makedirs(directory, mode=0o755, exist_ok=True)
    with flocked(os.path.join(where.run, "locks", "queue-told"), 15.0):  # the timer, and whoever extends a job
        now, last, away = time.time(), os.path.join(directory, LAST), False
        jobs: Sequence[Mapping[str, Any]]
        closed: Mapping[str, str] = {}
        try:
            queue.alive()
            jobs = queue.ask_jobs()
            write_atomic(last, json.dumps([one for one in jobs if one["gpus"]]).encode(), mode=0o644, sync=False)
        except NodeError:
            jobs, away = _last(last), True
        over = _last(os.path.join(directory, ENDED))
        ended = {one[0]: one[1:] for one in over if now - DAY < one[3]}
        with suppress(NodeError):
            ended.update({} if away else job_turns.look_lately())
        write_atomic(
            os.path.join(directory, ENDED), json.dumps([[job, *one] for job, one in ended.items()]).encode(),
            mode=0o644, sync=False,
        )  # fmt: skip
        with suppress(NodeError):  # guard: nodes of which Slurm says nothing keep nobody's lines from them
            closed = {} if away else queue.closed()
        _converge(directory, texts(jobs, now, away, closed, ended))
        if not away:
            prolong_grants(jobs, now, where)
    return 0


def prolong_grants(jobs: Sequence[Mapping[str, Any]], now: float, places: Places) -> None:
    """Give this node's grants the later ends that their jobs have: pages and gpuadmin-me show the end of a grant."""
    ends = {(f"{grants.SOURCE}-{one['id']}", one["user"]): min(one["end"] or 0, grants.LATEST) for one in jobs}
    try:
        with flocked(reconcile.lock_path(places), 5.0):
            for one in grants.read(places.state, places.run)[0]:
                # guard: a job's later end prolongs its own grant alone, and none that has ended
                if one.source == grants.SOURCE and now < one.until < ends.get((one.id, one.user), 0):
                    grants.write_until_boot(replace(one, until=ends[one.id, one.user]), places.run)
    except (NodeError, OSError) as error:  # the reconciler asks again before the old end
        print(f"grants do not have their jobs' ends yet: {in_words(error)}", file=sys.stderr)


def _last(path: str) -> list[Any]:
    """The jobs that the queue spoke of when it last answered, or that had ended. Root alone writes there."""
    try:
        return list(json.loads(read_bytes(path) or b"[]"))
    except ValueError:
        return []


def _converge(directory: str, wanted: Mapping[str, str]) -> None:
    for name in os.listdir(directory):
        if name not in wanted and name not in (LAST, ENDED):
            os.unlink(os.path.join(directory, name))
    for name, text in wanted.items():
        path = os.path.join(directory, name)
        if not os.path.exists(path) or read_bytes(path) != text.encode():
            write_atomic(path, text.encode(), mode=0o644, sync=False)

"""The program `gpu`: people ask the queue for GPUs. It runs as whoever calls it, and does what sbatch, squeue and
scancel would do for them.

What they get is a job that does nothing: the grant that comes with it opens the GPUs to all that they run on its node.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from gpuadmin.common.waiting import count_tasks

from ..errors import NodeError
from ..lookup import find_name
from . import (
    booking,
    gpu_book,
    gpu_here,
    gpu_jobs,
    gpu_jupyter,
    gpu_limits,
    gpu_run,
    mail_choice,
    notebook,
    owned,
    partitions,
    queue,
    shares,
    turn,
)  # fmt: skip
from .extend_service import ask
from .gpu_refusals import refusal
from .gpu_words import (
    Asked,
    UsageError,
    clock,
    describe_exceptions,
    estimate,
    had,
    parse,
    print_answer,
    print_table,
    spoken,
    waiting,
)  # fmt: skip
from .texts import ASKED, TEXTS, USAGE, USAGE_HERE

#: What a job of `gpu get` is called: only these are given back without their number.
NAME = "gpu-get"
JOB = turn.JobScript(NAME, queue.JOB_DOES)


class NotYoursError(Exception):
    """A job that somebody names is not theirs, or has ended."""


def main(arguments: Sequence[str], *, sleep: Callable[[float], None] = time.sleep) -> int:
    """Exit 0; 1 where the queue refuses or does not answer; 2 for what cannot be asked; 130 for who stops waiting."""
    language = spoken(arguments, os.environ)
    if arguments[:1] == [gpu_run.IN_JOB] and len(arguments) > 3:
        return gpu_run.run_here(arguments[1], arguments[2], arguments[3:], language)
    try:
        asked = parse(arguments, os.environ, time.time())
    except UsageError as error:
        print(f"{error}\n{TEXTS[language]['help']}", file=sys.stderr)
        return 2
    if asked is None:
        print((USAGE_HERE if gpu_here.read_rule() else USAGE)[language])
        return 0
    words = TEXTS[asked.language]
    try:
        if rule := gpu_here.read_rule():
            return gpu_here.act(asked, rule)
        queue.alive()
        if asked.word == "get":
            return get(asked, sleep)
        if asked.word == "jupyter":
            return gpu_jupyter.open_notebook(asked, sleep)
        if asked.word == "run":
            return gpu_run.run(asked, sleep)
        verbs = {"list": show, "why": why, "release": release, "extend": extend, "book": gpu_book.book}
        return {**verbs, "jobs": gpu_jobs.show, "mail": mail, "limits": gpu_limits.show}[asked.word](asked)
    except NotYoursError as error:
        print(error, file=sys.stderr)
        return 1
    except queue.AwayError:
        print(words["away"], file=sys.stderr)
        return 1
    except NodeError as error:
        print(refusal(str(error), words, asked.project), file=sys.stderr)
        return 1


def get(asked: Asked, sleep: Callable[[float], None]) -> int:
    say = partial(print, flush=True)
    job = turn.submit(asked, say, JOB)
    if job is None:
        return 1
    mine = turn.wait_or_keep(job, asked, sleep, say)
    return mine if isinstance(mine, int) else 0


def show(asked: Asked) -> int:
    words = TEXTS[asked.language]
    there = [one for one in queue.ask_jobs() if one["gpus"]]
    types = queue.ask(queue.TYPES)
    if there:
        rows = [words["columns"].split("|")]
        for one in there:
            when = words["waits"].format(one["place"]) if one["waits"] else clock(one["end"])
            rows.append([one["id"], one["user"], _describe_gpus(one, types), one["nodes"] or "–", when])
        print_table(rows)
    else:
        print(words["empty"])
    for line in (*describe_exceptions(there, words), *gpu_book.lines(booking.reservations(), asked.language)):
        print(line)
    closed = {one["name"]: one["reason"] for one in queue.nodes(queue.ask(queue.NODES)) if one["reason"]}
    nodes = _counted(types, closed, words)
    if whole := [f"{node}: {', '.join(gpus)}" for node, (gpus, _) in nodes.items() if gpus]:
        print(words["kinds"].format("; ".join(whole)))
    for node, (_, devices) in nodes.items():
        if devices:
            print(words["devices"].format(node, ", ".join(devices)))
    for line in owned.describe(partitions.look_owned(), asked.language):
        print(line)
    for node, reason in closed.items():
        print(words["closed"].format(node, reason))
    return 0


def _describe_gpus(one: Mapping[str, Any], types: str) -> str:
    """The GPUs of a job: `2 × h100` where its nodes have one type; `6 × 1` of an array that waits. ``types``: what
    queue.TYPES prints."""
    if one["waits"]:
        return " × ".join(filter(None, (count_tasks(one["id"]), str(one["gpus"]))))
    kinds, counts = queue.kinds(types), queue.counts(types)
    nodes = one["nodes"].split(",")
    found = {kind for node in nodes for kind in kinds.get(node, {})}
    known = len(found) == 1 and all(sum(kinds.get(node, {}).values()) == counts.get(node) for node in nodes)
    return f"{one['gpus']} × {found.pop()}" if known else str(one["gpus"])


def _counted(types: str, closed: Collection[str], words: Mapping[str, str]) -> dict[str, tuple[list[str], list[str]]]:
    """Node → its GPUs and its MIG devices in words, with those that no job has; ``closed``: nobody gets these now.
    ``types``: what queue.TYPES prints."""
    used, all_used = queue.kinds(types, used=True), queue.counts(types, used=True)
    counts, found = queue.counts(types), {}
    for node, kinds in queue.kinds(types).items():
        rows = [(kind, number, used[node].get(kind, 0)) for kind, number in kinds.items()]
        # those whose type nobody knows
        rows.append(("", counts[node] - sum(kinds.values()), all_used[node] - sum(in_use for _, _, in_use in rows)))
        whole: list[str] = []
        parts: list[str] = []
        for kind, number, in_use in rows:
            free = "" if node in closed else f" ({words['free'].format(max(number - in_use, 0))})"
            if number:
                said = f"{number} × {kind}" if kind else str(number)
                (parts if queue.PROFILE.match(kind) else whole).append(f"{said}{free}")
        found[node] = whole, parts
    return found


def why(asked: Asked) -> int:
    words, jobs = TEXTS[asked.language], queue.ask_jobs()
    mine = _mine(asked, jobs)
    for one in mine:
        line = waiting(one, asked.language) + estimate(one, words, time.time()) if one["waits"] else ""
        print("\n".join(f"{one['id']}: {line}" for line in ([line] if line else had(one, words))))
    for line in owned.describe_guests(mine, asked.language):
        print(line)
    if not mine:
        print(words["none"])
    with suppress(NodeError):  # where Slurm does not say, the rest is said
        for line in shares.lines(jobs, find_name(os.getuid()) or "", words):
            print(line)
    for node, reason in (queue.closed() if any(one["waits"] for one in mine) else {}).items():
        print(words["closed"].format(node, reason))
    booked = gpu_book.lines(gpu_book.own(booking.reservations()), asked.language)
    for line in (*booked, *gpu_book.windows(asked.language)):
        print(line)
    return 0


def release(asked: Asked) -> int:
    words, mine = TEXTS[asked.language], _mine(asked)
    # guard: what somebody computes is not ended because they give back what they got to work by hand -> mine
    ending = [one for one in mine if asked.jobs or one["name"] in (NAME, notebook.NAME)]
    for one in ending:
        queue.ask(("scancel", one["id"]))
        print(words["released"].format(one["id"]))
    left = [one["id"] for one in mine if one not in ending and one["gpus"]]
    if left:
        print(words["others"].format(" ".join(left)))
    elif not mine:
        print(words["none"])
    return 0


def extend(asked: Asked) -> int:
    """More time for a job that has its GPUs: a service of the node may give it, and decides."""
    words, sentences = TEXTS[asked.language], ASKED[asked.language]
    running = [one["id"] for one in _mine(asked) if one["gpus"] and not one["waits"]]
    if not running:
        print(words["none"])
        return 1
    if len(running) > 1:  # guard: it is not guessed which job somebody means
        print(sentences["which"].format(" ".join(running)), file=sys.stderr)
        return 2
    return print_answer(ask(f"extend {running[0]} {asked.hours or 1}"), sentences)


def mail(asked: Asked) -> int:
    """Whether mails come about one's jobs, and in which language; or how they are to."""
    sentences = ASKED[asked.language]
    if asked.mail:
        return print_answer(ask(f"mail {asked.mail}"), sentences)
    word, _ = mail_choice.read().get(find_name(os.getuid()) or "", ("on", 0))
    print(sentences[f"mail-{word}"])
    return 0


def _mine(asked: Asked, jobs: Sequence[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """The jobs of whoever asks; where some were named, these. Raises NotYoursError."""
    user = find_name(os.getuid())
    mine = [one for one in (queue.ask_jobs() if jobs is None else jobs) if one["user"] == user]
    for job in asked.jobs:
        if all(one["id"] != job for one in mine):
            raise NotYoursError(TEXTS[asked.language]["not-yours"].format(job))
    return [one for one in mine if not asked.jobs or one["id"] in asked.jobs]

"""The program `gpu`: people ask the queue for GPUs. It runs as whoever calls it, and does what sbatch, squeue and
scancel would do for them.

What they get is a job that does nothing: the grant that comes with it opens the GPUs to all that they run on its node.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from gpuadmin.common.waiting import count_tasks

from ..errors import NodeError
from ..lookup import name_of
from . import booking, exceptions, gpu_book, gpu_limits, queue
from .accounts import EXCEPTION
from .booking import Reservation
from .extend_service import ask
from .gpu_refusals import refusal
from .gpu_words import Asked, UsageError, clock, gpus, had, parse, said, spoken, waiting
from .texts import ASKED, TEXTS, USAGE

#: Where it is on nodes of the queue.
PROGRAM = "/usr/local/bin/gpu"
#: What a job of `gpu get` is called: only these are given back without their number.
NAME = "gpu-get"
POLL = 5.0  # seconds between two questions, from all who wait
OPENING = 60.0  # seconds for the prolog to open the GPUs, while Slurm says RUNNING


class NotYoursError(Exception):
    """A job that somebody names is not theirs, or has ended."""


def main(arguments: Sequence[str], *, sleep: Callable[[float], None] = time.sleep) -> int:
    """Exit 0; 1 where the queue refuses or does not answer; 2 for what cannot be asked; 130 for who stops waiting."""
    language = spoken(arguments, os.environ)
    try:
        asked = parse(arguments, os.environ, time.time())
    except UsageError as error:
        print(f"{error}\n{TEXTS[language]['help']}", file=sys.stderr)
        return 2
    if asked is None:
        print(USAGE[language])
        return 0
    words = TEXTS[asked.language]
    try:
        queue.alive()
        if asked.word == "get":
            return get(asked, sleep)
        verbs = {"list": show, "why": why, "release": release, "extend": extend, "book": gpu_book.book}
        return {**verbs, "limits": gpu_limits.show}[asked.word](asked)
    except NotYoursError as error:
        print(error, file=sys.stderr)
        return 1
    except queue.AwayError:
        print(words["away"], file=sys.stderr)
        return 1
    except NodeError as error:
        print(refusal(str(error), words, asked.project), file=sys.stderr)
        return 1


def build_sbatch_command(
    asked: Asked, type: str = "", booked: Reservation | None = None, minutes: int = 60, without: Sequence[str] = ()
) -> list[str]:
    """What sbatch is called with. ``type``: of the GPUs, as Slurm calls it. ``booked``: whose GPUs it is to use.
    ``without``: nodes that it is not to use."""
    gres = f"gpu:{type}:{asked.gpus}" if type else f"gpu:{asked.gpus}"
    return [
        "sbatch", "--parsable", f"--job-name={NAME}", "--nodes=1", f"--gres={gres}",
        f"--time={minutes // 60}:{minutes % 60:02}:00", "--chdir=/", "--output=/dev/null", "--export=NIL",
        *([f"--nodelist={asked.node}"] if asked.node else []),
        *([f"--exclude={','.join(without)}"] if without else []),
        *([f"--reservation={booked.name}"] if booked else []),
        *([f"--wckey={asked.project}"] if asked.project else []), f"--wrap={queue.JOB_DOES}",
    ]  # fmt: skip


def get(asked: Asked, sleep: Callable[[float], None]) -> int:
    words = TEXTS[asked.language]
    found = _kind(asked, words)
    if found is None:
        return 1
    type, without = found
    now = time.time()
    booked = gpu_book.usable(asked, type, now)
    minutes = gpu_book.minutes(asked, booked, now)
    job = queue.ask(build_sbatch_command(asked, type, booked, minutes, without)).strip().partition(";")[0]
    if booked is None:
        what = f"{asked.gpus} × {asked.mig}" if asked.mig else gpus(asked.gpus, words)
        print(words["asked"].format(job, what, asked.hours or 1), flush=True)
    else:
        print(words["booked"].format(job, gpus(asked.gpus, words), clock(booked.end)), flush=True)
    if not asked.wait:
        print(words["kept"].format(job))
        return 0
    said, first, away = "", 0.0, False
    try:
        while True:
            sleep(POLL if said else 0.5)  # the queue tells nobody
            try:
                queue.alive()  # squeue would ask one that is away for nine seconds
                mine = [one for one in queue.ask_jobs() if one["id"] == job]
            except NodeError:  # it is started again; the place is kept
                if not away:
                    print(words["waits-on"], flush=True)
                said, away = "away", True
                continue
            if away:
                said, away = "", False
            if not mine:
                print(words["ended"].format(job))
                return 1
            if not mine[0]["waits"]:
                first = first or time.monotonic()
                if mine[0]["comment"] != queue.OPEN and time.monotonic() - first < OPENING:
                    said = ""  # it is a matter of moments
                    continue
                print("\n".join(had(mine[0], words)))
                return 0
            line = said if mine[0]["reason"] == "None" else waiting(mine[0], asked.language)  # not decided yet
            if line != said:
                print(line, flush=True)
                said = line
    except KeyboardInterrupt:
        print(f"\n{words['kept'].format(job)}")
        return 130


def _kind(asked: Asked, words: Mapping[str, str]) -> tuple[str, list[str]] | None:
    """The type that a job asks for, and the nodes that it is not to use. None: there is none such, which is said."""
    kinds = queue.kinds(queue.ask(queue.TYPES))
    if asked.mig:
        profiles = {one for of in kinds.values() for one in of if queue.PROFILE.match(one)}
        if asked.mig in profiles:
            return asked.mig, []
        print(words["profiles"].format(asked.mig, ", ".join(sorted(profiles)) or "–"), file=sys.stderr)
        return None
    if not asked.type:
        return whole(asked, kinds)
    types = set(queue.types(kinds).values())
    meant = sorted({one for one in types if asked.type == one} or {one for one in types if asked.type in one})
    if len(meant) != 1:  # guard: it is not guessed which type of GPUs somebody means
        print(words["types"].format(asked.type, ", ".join(sorted(types)) or "–"), file=sys.stderr)
        return None
    return meant[0], []


def whole(asked: Asked, kinds: Mapping[str, Mapping[str, int]]) -> tuple[str, list[str]]:
    """Of which type GPUs are that somebody asks for without one, and which nodes cannot give them: Slurm would take a
    MIG device for a GPU."""
    nodes = [one for one in kinds if asked.node in ("", one)]
    # guard: who asks for a GPU is given no part of one -> []
    divided = [one for one in nodes if any(queue.PROFILE.match(kind) for kind in kinds[one])]
    types = {kind for one in nodes for kind in kinds[one] if not queue.PROFILE.match(kind)}
    if not divided:
        return "", []
    return (types.pop(), []) if len(types) == 1 else ("", divided)


def show(asked: Asked) -> int:
    words = TEXTS[asked.language]
    there = [one for one in queue.ask_jobs() if one["gpus"]]
    types = queue.ask(queue.TYPES)
    if there:
        rows = [words["columns"].split("|")]
        for one in there:
            when = words["waits"].format(one["place"]) if one["waits"] else clock(one["end"])
            rows.append([one["id"], one["user"], _describe_gpus(one, types), one["nodes"] or "–", when])
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    else:
        print(words["empty"])
    given = {one["id"]: one for one in there if one["qos"] == EXCEPTION}
    for job, made in exceptions.said(list(given)).items():
        one = given[job]
        what = one["user"], gpus(one["gpus"], words), one["nodes"] or "–", clock(one["end"])
        print(words["exception"].format(job, made["who"] or "?", *what, made["reason"] or "?"))
    for line in gpu_book.lines(booking.reservations(), asked.language):
        print(line)
    closed = {one["name"]: one["reason"] for one in queue.nodes(queue.ask(queue.NODES)) if one["reason"]}
    nodes = _counted(types, closed, words)
    if whole := [f"{node}: {', '.join(gpus)}" for node, (gpus, _) in nodes.items() if gpus]:
        print(words["kinds"].format("; ".join(whole)))
    for node, (_, devices) in nodes.items():
        if devices:
            print(words["devices"].format(node, ", ".join(devices)))
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
    words, mine = TEXTS[asked.language], _mine(asked)
    for one in mine:
        lines = [waiting(one, asked.language)] if one["waits"] else had(one, words)
        print("\n".join(f"{one['id']}: {line}" for line in lines))
    if not mine:
        print(words["none"])
    for node, reason in (queue.closed() if any(one["waits"] for one in mine) else {}).items():
        print(words["closed"].format(node, reason))
    for line in gpu_book.lines(gpu_book.own(booking.reservations()), asked.language):
        print(line)
    return 0


def release(asked: Asked) -> int:
    words, mine = TEXTS[asked.language], _mine(asked)
    # guard: what somebody computes is not ended because they give back what they got to work by hand -> mine
    ending = [one for one in mine if asked.jobs or one["name"] == NAME]
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
    return said(ask(f"extend {running[0]} {asked.hours or 1}"), sentences)


def _mine(asked: Asked) -> list[dict[str, Any]]:
    """The jobs of whoever asks; where some were named, these. Raises NotYoursError."""
    user = name_of(os.getuid())
    mine = [one for one in queue.ask_jobs() if one["user"] == user]
    for job in asked.jobs:
        if all(one["id"] != job for one in mine):
            raise NotYoursError(TEXTS[asked.language]["not-yours"].format(job))
    return [one for one in mine if not asked.jobs or one["id"] in asked.jobs]

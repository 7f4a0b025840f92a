"""The program `gpu`: people ask the queue for GPUs. It runs as whoever calls it, and does what sbatch, squeue and
scancel would do for them.

What they get is a job that does nothing: the grant that comes with it opens the GPUs to all that they run on its node.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuadmin.common.text import language

from ..errors import NodeError
from ..lookup import name_of
from . import queue
from .asked import ask
from .texts import ASKED, LANGUAGES, TEXTS, USAGE, WHY

WORDS = ("get", "list", "why", "release", "extend")
#: Where it is on nodes of the queue.
PROGRAM = "/usr/local/bin/gpu"
#: What a job of `gpu get` is called: only these are given back without their number.
NAME = "gpu-get"
POLL = 5.0  # seconds between two questions, from all who wait
MOST_GPUS = 64
#: Slurm says RUNNING while the prolog still opens the GPUs; this runs after it.
OPEN, OPENING = "open", 60.0  # seconds for it
JOB_DOES = f"scontrol update JobId=$SLURM_JOB_ID Comment={OPEN}; exec sleep infinity"
_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,39}\Z")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


class UsageError(Exception):
    """What was typed is not understood."""


class NotYoursError(Exception):
    """A job that somebody names is not theirs, or has ended."""


@dataclass
class Asked:
    """What was typed. ``jobs``: numbers of jobs."""

    word: str
    language: str
    gpus: int = 1
    hours: int = 1
    node: str = ""
    type: str = ""
    wait: bool = True
    jobs: list[str] = field(default_factory=list)


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Asked | None:
    """None: only help is asked for. Raises UsageError."""
    asked = Asked("", language(environment))
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        option, equals, given = word.partition("=")
        if word in ("-h", "--help"):
            return None
        if option in ("--hours", "--node", "--type", "--language"):
            if not equals:
                if not rest:
                    raise UsageError(f"{option} lacks its value")
                given = rest.pop(0)
            if option == "--hours":
                asked.hours = _number(given, queue.MOST_HOURS, asked.language)
            elif option == "--node":
                if not _NODE.match(given):
                    raise UsageError(f"--node: {given[:60]!r} is not a node")
                asked.node = given
            elif option == "--type":
                if not _TYPE.match(given):
                    raise UsageError(f"--type: {given[:60]!r} is no type of GPUs; `gpu list` shows them")
                asked.type = given.lower()
            elif given not in LANGUAGES:
                raise UsageError("--language is ko or en")
            else:
                asked.language = given
        elif word == "--no-wait":
            asked.wait = False
        elif not asked.word and word in WORDS:
            asked.word = word
        elif asked.word == "get":
            asked.gpus = _number(word, MOST_GPUS, asked.language)
        elif asked.word in ("why", "release", "extend") and queue.JOB.match(word):
            asked.jobs.append(word)
        else:
            raise UsageError(f"{word[:60]!r} is not known")
    return asked if asked.word else None


def _number(text: str, most: int, language: str) -> int:
    number = queue.number(text)
    if number is None or not 1 <= number <= most:
        raise UsageError(TEXTS[language]["number"].format(text[:20], 1, most))
    return number


def main(arguments: Sequence[str], *, sleep: Callable[[float], None] = time.sleep) -> int:
    """Exit 0; 1 where the queue refuses or does not answer; 2 for what cannot be asked; 130 for who stops waiting."""
    try:
        asked = parse(arguments, os.environ)
    except UsageError as error:
        print(f"{error}\n{USAGE}", file=sys.stderr)
        return 2
    if asked is None:
        print(USAGE)
        return 0
    words = TEXTS[asked.language]
    try:
        queue.alive()
        return {"get": get, "list": show, "why": why, "release": release, "extend": extend}[asked.word](asked, sleep)
    except NotYoursError as error:
        print(error, file=sys.stderr)
        return 1
    except queue.AwayError:
        print(words["away"], file=sys.stderr)
        return 1
    except NodeError as error:
        print(refusal(str(error), words), file=sys.stderr)
        return 1


def refusal(text: str, words: Mapping[str, str]) -> str:
    """Why Slurm refuses, in words that say what to do."""
    if "node configuration is not available" in text or "Invalid node name" in text:
        return words["impossible"].format(text)
    if "QOS policy" in text or "policy limit" in text:
        return words["too-much"]
    if "Invalid account" in text:
        return words["unknown"]
    return words["failed"].format(text)


def command_of(asked: Asked, type: str = "") -> list[str]:
    """What sbatch is called with. ``type``: of the GPUs, as Slurm calls it."""
    gres = f"gpu:{type}:{asked.gpus}" if type else f"gpu:{asked.gpus}"
    return [
        "sbatch", "--parsable", f"--job-name={NAME}", "--nodes=1", f"--gres={gres}",
        f"--time={asked.hours}:00:00", "--chdir=/", "--output=/dev/null", "--export=NIL",
        *([f"--nodelist={asked.node}"] if asked.node else []), f"--wrap={JOB_DOES}",
    ]  # fmt: skip


def get(asked: Asked, sleep: Callable[[float], None]) -> int:
    words = TEXTS[asked.language]
    type = ""
    if asked.type:
        there = queue.types(queue.ask(queue.TYPES))
        meant = sorted({one for one in there.values() if asked.type == one} or
                       {one for one in there.values() if asked.type in one})  # fmt: skip
        if len(meant) != 1:  # guard: it is not guessed which type of GPUs somebody means
            print(words["types"].format(asked.type, ", ".join(sorted(set(there.values()))) or "–"), file=sys.stderr)
            return 1
        type = meant[0]
    job = queue.ask(command_of(asked, type)).strip().partition(";")[0]
    print(words["asked"].format(job, gpus(asked.gpus, words), asked.hours), flush=True)
    if not asked.wait:
        print(words["kept"].format(job))
        return 0
    said, first = "", 0.0
    try:
        while True:
            sleep(POLL if said else 0.5)  # the queue tells nobody
            try:
                mine = [one for one in queue.ask_jobs() if one["id"] == job]
            except NodeError:  # it is started again; the place is kept
                continue
            if not mine:
                print(words["ended"].format(job))
                return 1
            if not mine[0]["waits"]:
                first = first or time.monotonic()
                if mine[0]["comment"] != OPEN and time.monotonic() - first < OPENING:
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


def waiting(one: Mapping[str, Any], language: str) -> str:
    reason = WHY[language][queue.code(one["reason"])].format(one["reason"])
    return TEXTS[language]["place"].format(one["place"], reason)


def had(one: Mapping[str, Any], words: Mapping[str, str]) -> list[str]:
    """What is said of GPUs that somebody has: where, and until when."""
    lines = [words["have"].format(gpus(one["gpus"], words), one["nodes"], clock(one["end"]))]
    here = socket.gethostname()
    if one["nodes"] != here:
        lines.append(words["there"].format(here, one["nodes"]))
    return lines


def show(asked: Asked, sleep: Callable[[float], None]) -> int:
    words = TEXTS[asked.language]
    there = [one for one in queue.ask_jobs() if one["gpus"]]
    if there:
        rows = [words["columns"].split("|")]
        for one in there:
            when = words["waits"].format(one["place"]) if one["waits"] else clock(one["end"])
            rows.append([one["id"], one["user"], str(one["gpus"]), one["nodes"] or "–", when])
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    else:
        print(words["empty"])
    kinds = queue.types(queue.ask(queue.TYPES))
    if kinds:
        print(words["kinds"].format(", ".join(f"{node} {kind}" for node, kind in kinds.items())))
    for node in queue.nodes(queue.ask(queue.NODES)):
        if node["reason"]:
            print(words["closed"].format(node["name"], node["reason"]))
    return 0


def why(asked: Asked, sleep: Callable[[float], None]) -> int:
    words, mine = TEXTS[asked.language], _mine(asked)
    for one in mine:
        lines = [waiting(one, asked.language)] if one["waits"] else had(one, words)
        print("\n".join(f"{one['id']}: {line}" for line in lines))
    if not mine:
        print(words["none"])
    return 0


def release(asked: Asked, sleep: Callable[[float], None]) -> int:
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


def extend(asked: Asked, sleep: Callable[[float], None]) -> int:
    """More time for a job that has its GPUs: a service of the node may give it, and decides."""
    words, sentences = TEXTS[asked.language], ASKED[asked.language]
    running = [one["id"] for one in _mine(asked) if one["gpus"] and not one["waits"]]
    if not running:
        print(words["none"])
        return 1
    if len(running) > 1:  # guard: it is not guessed which job somebody means
        print(sentences["which"].format(" ".join(running)), file=sys.stderr)
        return 2
    found = ask(f"extend {running[0]} {asked.hours}")
    if found is None:
        print(sentences["silent"], file=sys.stderr)
        return 1
    status, (word, *values) = found
    if word in ("extended", "too-long", "booked") and values[-1].isdecimal():
        values[-1] = clock(int(values[-1]))
    text = sentences.get(word, sentences["failed"]).format(*values, "?", "?")
    print(text, file=sys.stderr if status else sys.stdout)
    return status


def _mine(asked: Asked) -> list[dict[str, Any]]:
    """The jobs of whoever asks; where some were named, these. Raises NotYoursError."""
    user = name_of(os.getuid())
    mine = [one for one in queue.ask_jobs() if one["user"] == user]
    for job in asked.jobs:
        if all(one["id"] != job for one in mine):
            raise NotYoursError(TEXTS[asked.language]["not-yours"].format(job))
    return [one for one in mine if not asked.jobs or one["id"] in asked.jobs]


def gpus(number: int, words: Mapping[str, str]) -> str:
    one, _, several = words["gpus"].partition("|")
    return (several or one if number != 1 else one).format(number)


def clock(seconds: int | None) -> str:
    return "?" if seconds is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))

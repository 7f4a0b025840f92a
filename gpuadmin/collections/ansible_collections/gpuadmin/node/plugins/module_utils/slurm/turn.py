"""A job of `gpu`: how it is submitted, and how its person waits for their turn. It runs as whoever calls it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import NodeError
from . import gpu_book, owned, queue
from .booking import Reservation
from .gpu_words import Asked, clock, estimate, gpus, had, waiting
from .texts import TEXTS

POLL = 5.0  # seconds between two questions, from all who wait
OPENING = 60.0  # seconds for the prolog to open the GPUs, while Slurm says RUNNING

#: How something is said to whoever waits.
Say = Callable[[str], object]


@dataclass(frozen=True)
class JobScript:
    """A job's name, what its script does, and the options of sbatch that belong to it."""

    name: str
    does: str
    options: Sequence[str] = ("--chdir=/", "--output=/dev/null", "--export=NIL")


def build_sbatch_command(
    asked: Asked,
    script: JobScript,
    type: str = "",
    booked: Reservation | None = None,
    minutes: int = 60,
    without: Sequence[str] = (),
) -> list[str]:
    """What sbatch is called with. ``type``: of the GPUs, as Slurm calls it. ``booked``: whose GPUs it is to use.
    ``without``: nodes that it is not to use."""
    gres = f"gpu:{type}:{asked.gpus}" if type else f"gpu:{asked.gpus}"
    return [
        "sbatch", "--parsable", f"--job-name={script.name}", "--nodes=1", f"--gres={gres}",
        f"--time={minutes // 60}:{minutes % 60:02}:00", *script.options,
        *([f"--cpus-per-task={asked.cpus}"] if asked.cpus else []),
        *([f"--mem={asked.memory}G"] if asked.memory else []),
        *([f"--nodelist={asked.node}"] if asked.node else []),
        *([f"--exclude={','.join(without)}"] if without else []),
        *([f"--reservation={booked.name}"] if booked else []),
        *([f"--wckey={asked.project}"] if asked.project else []), f"--wrap={script.does}",
    ]  # fmt: skip


def submit(asked: Asked, say: Say, script: JobScript) -> str | None:
    """Submit a job for what somebody asks for, and say so. Returns its number; None: there is none such, which is
    said. Raises NodeError where Slurm refuses."""
    words = TEXTS[asked.language]
    found = _kind(asked, words)
    if found is None:
        return None
    type, without = found
    now = time.time()
    booked = gpu_book.usable(asked, type, now)
    minutes = gpu_book.minutes(asked, booked, now)
    command = build_sbatch_command(asked, script, type, booked, minutes, without)
    job = queue.ask(command).strip().partition(";")[0]
    if booked is None:
        what = f"{asked.gpus} × {asked.mig}" if asked.mig else gpus(asked.gpus, words)
        say(words["asked"].format(job, what, asked.hours or 1))
    else:
        say(words["booked"].format(job, gpus(asked.gpus, words), clock(booked.end)))
    return job


def wait_for_turn(
    job: str, asked: Asked, sleep: Callable[[float], None], say: Say
) -> Mapping[str, Any] | None:  # fmt: skip
    """Wait until a job's GPUs are open, and say its place meanwhile. Returns the job as ``queue.jobs`` has it; None
    where it has ended."""
    words = TEXTS[asked.language]
    said: tuple[str, bool] | None
    said, first, away = None, 0.0, False
    while True:
        sleep(POLL if said else 0.5)  # the queue tells nobody
        try:
            queue.alive()  # squeue would ask one that is away for nine seconds
            mine = [one for one in queue.ask_jobs() if one["id"] == job]
        except NodeError:  # it is started again; the place is kept
            if not away:
                say(words["waits-on"])
            said, away = ("away", False), True
            continue
        if away:
            said, away = None, False
        if not mine:
            return None
        if not mine[0]["waits"]:
            first = first or time.monotonic()
            if mine[0]["comment"] != queue.OPEN and time.monotonic() - first < OPENING:
                said = None  # it is a matter of moments
                continue
            return mine[0]
        if mine[0]["reason"] == "None":  # not decided yet
            continue
        line = waiting(mine[0], asked.language)
        when = estimate(mine[0], words, time.time())
        if (line, bool(when)) != said:  # an estimate that moves is not said each time
            later = [] if queue.code(mine[0]["reason"]) != "maintenance" else gpu_book.windows(asked.language)
            say("\n".join([line + when, *later]))
            said = line, bool(when)


def wait_or_keep(
    job: str, asked: Asked, sleep: Callable[[float], None], say: Say
) -> Mapping[str, Any] | int:  # fmt: skip
    """The same, for a job that stays in the queue when nobody waits for it any longer, and say what there is. An exit
    status where there is none yet."""
    words = TEXTS[asked.language]
    if asked.detach or not asked.wait:
        say(words["kept"].format(job))
        return 0
    try:
        mine = wait_for_turn(job, asked, sleep, say)
    except KeyboardInterrupt:
        say(f"\n{words['kept'].format(job)}")
        return 130
    lines = [] if mine is None else [*had(mine, words), *owned.describe_guests([mine], asked.language)]
    say("\n".join(lines) or words["ended"].format(job))
    return 1 if mine is None else mine


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

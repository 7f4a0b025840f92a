"""What a person's slice may take while their jobs run: its limits, and what Slurm gave to the jobs here.

What people run is in their slice and not in the job, so `--mem` and the job's processors are added to the slice's
bounds, and taken back at the job's end. A job whose amounts are not known raises nothing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import NodeError, in_words
from ..files import flocked, read_bytes, write_atomic
from ..gpus import grants
from ..gpus.gate import Places, set_by_property, set_property
from ..gpus.grants import SOURCE, Grant
from ..limits import applying
from ..limits.bounds import Machine
from ..run import Runner
from ..unit_status import Outcome
from . import exceptions, queue
from .accounts import EXCEPTION

RECORD = "raised-limits.json"
#: What a slice is about to be told for the first time: it is told again.
UNSURE = "?"
_MOST = 10_000  # processors of a node
_FREE = {"MemoryMax": "infinity", "CPUQuota": ""}
_WORDS = {"NodeList": 1024, "EndTime": 24, "tres-alloc": 256, "QOS": 32, "admin_comment": 4096}
_GPUS = re.compile(r"(?:^|,)gpu[^,(]*\(IDX:([0-9,-]+)\)")


@dataclass(frozen=True)
class Share:
    """What a job has of a node: bytes, processors, and the numbers of GPUs. ``some``: it has GPUs, known or not.
    ``who``, ``reason``: of an exception, which admin made it and why."""

    memory: int = 0
    processors: int = 0
    gpus: Sequence[int] = ()
    some: bool = False
    who: str = ""
    reason: str = ""
    #: Its end, where slurmd does not say it.
    until: int = 0


def parse_node_share(text: str, node: str) -> Share:
    """What ``scontrol --json show job`` says of a node; nothing where that is not understood.

    Not what it says in words: a job's name is there as well, and can be any words. (Slurm 24.11; read as data.)
    """
    try:
        (job,) = json.loads(text)["jobs"]
        there = job["job_resources"]["nodes"]["allocation"]
        (place,) = [number for number, one in enumerate(there) if one["name"] == node]
        memory, processors = there[place]["memory"]["allocated"], there[place]["cpus"]["count"]
        listed = [*job["gres_detail"], *[""] * len(there)][place]
        gpus = [number for one in _GPUS.findall(listed) for number in _numbers(one)]
        made = {"who": "", "reason": ""}
        if job.get("qos") == EXCEPTION:
            made = exceptions.parse_comment(str(job.get("admin_comment")))
        return Share(int(memory) << 20, int(processors), tuple(gpus), "gpu" in listed, made["who"], made["reason"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return Share()


def _numbers(text: str) -> list[int]:
    """``0-2,8`` one by one; nothing where that is not understood."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = queue.number(first), queue.number(last or first)
        if low is None or high is None or not 0 <= high - low < _MOST:
            return []
        found += range(low, high + 1)
    return found


def ask(job: str, node: str, command: Runner) -> Share:
    """What a job has of this node. slurmctld has five seconds; what it does not say raises nothing."""
    try:
        done = command(("timeout", "5", *queue.details(job)))
    except (NodeError, OSError):
        return Share()
    if done.returncode == 0:
        return parse_node_share(done.stdout, node)
    return _ask_in_words(job, node) if "--json" in done.stderr else Share()


def _ask_in_words(job: str, node: str) -> Share:
    """The same before Slurm 23.02, whose scontrol knows no JSON: of a job on this node alone, and not which GPUs."""
    try:
        nodes, end, tres, qos, comment = queue.table(_WORDS, f"--jobs={job}")[0].split(queue.BETWEEN)[:5]
    except (NodeError, ValueError):
        return Share()
    has = queue.amounts(tres.strip())
    made = exceptions.parse_comment(comment.strip() if qos.strip() == EXCEPTION else "")
    whole = nodes.strip() == node  # guard: of a job on several nodes nobody says how much this one has -> True
    memory, processors = (int(has.get(name, 0)) if whole else 0 for name in ("mem", "cpu"))
    until = queue.number(end.strip()) or 0
    return Share(memory, processors, (), "gres/gpu" in has, made["who"], made["reason"], until)


def bounds(base: Mapping[str, str], share: Share, machine: Machine) -> dict[str, str]:
    """What systemd is told of a slice whose limits are ``base``, and whose person has ``share`` of jobs here.

    Memory goes up to what all people together have. What is not limited is not mentioned.
    """
    found = {}
    memory, quota = base.get("MemoryMax", "infinity"), base.get("CPUQuota", "").rstrip("%")
    if memory.isdecimal() and share.memory:
        # guard: jobs take nothing of what the node keeps for itself
        found["MemoryMax"] = str(max(int(memory), min(int(memory) + share.memory, machine.for_people)))
    if quota.isdecimal() and share.processors:
        found["CPUQuota"] = f"{max(int(quota), min(int(quota) + 100 * share.processors, 100 * machine.processors))}%"
    return found


def apply(places: Places, now: float, limits: applying.Places | None = None) -> Outcome:
    """Bring slices to what jobs have here by now. What systemd refuses is a problem, and tried again."""
    limits = limits or applying.Places(state=places.state, run=places.run, control=places.control)
    limits = replace(limits, command=places.command, lookup=places.lookup)
    outcome = Outcome()
    # guard: limits are brought to jobs by one at a time
    with flocked(os.path.join(places.run, "locks", "raised-limits")):
        before = _before(places)
        held = [one for one in grants.read(places.state, places.run)[0] if one.source == SOURCE and one.holds(now)]
        uids = sorted({*before, *(one.uid for one in held if one.memory or one.processors)})
        after: dict[int, dict[str, str]] = {}
        for uid in uids:
            try:
                told = _bring(places, limits, uid, held, before, outcome)
            except (NodeError, OSError) as error:  # guard: limits keep no job from its GPUs
                told = before.get(uid, {})
                outcome.problems.append(f"user-{uid}.slice: limits do not follow its jobs: {in_words(error)}")
            if told:
                after[uid] = told
        if after != before:
            _remember(places, after, outcome)
    return outcome


def _remember(places: Places, told: Mapping[int, Mapping[str, str]], outcome: Outcome) -> bool:
    try:
        write_atomic(os.path.join(places.run, RECORD), json.dumps(told).encode(), mode=0o600, sync=False)
        return True
    except OSError as error:  # guard: a full /run keeps no job from its GPUs
        outcome.problems.append(f"what limits were raised is not remembered: {in_words(error)}")
        return False


def _bring(
    places: Places,
    limits: applying.Places,
    uid: int,
    held: Sequence[Grant],
    all_before: dict[int, dict[str, str]],
    outcome: Outcome,
) -> dict[str, str]:
    """Tell systemd of one slice. Returns what of its limits is raised now."""
    before = all_before.get(uid, {})
    unit, base = f"user-{uid}.slice", applying.of_person(uid, limits)
    mine = [one for one in held if one.uid == uid]
    share = Share(sum(one.memory for one in mine), sum(one.processors for one in mine))
    wanted = bounds(base, share, applying.machine(limits)) if mine else {}
    # guard: what an admin has set by hand stays
    wanted = {name: value for name, value in wanted.items() if name in before or not _by_hand(places, unit, name)}
    changed = {name: value for name, value in wanted.items() if before.get(name) != value}
    # guard: what a job raised is taken back at its end -> []
    back = [name for name in before if name not in wanted]
    settings = [f"{name}={value}" for name, value in changed.items()]
    settings += [f"{name}={base.get(name, _FREE[name])}" for name in back]
    if not settings:
        return wanted
    if set(changed) - set(before):
        # whoever is killed in between leaves a file of systemd's that would be taken for an admin's, and stay
        unsure = {**before, **dict.fromkeys(set(changed) - set(before), UNSURE)}
        # guard: what is raised was remembered before, and is taken back
        if not _remember(places, {**all_before, uid: unsure}, outcome):
            return before
        all_before[uid] = before = unsure
    why = set_property(places, unit, settings)
    if why is not None:
        outcome.problems.append(f"{unit}: {' '.join(settings)} could not be set: {why}")
        return before
    for name in back:  # the file would hide what the site says later
        for path in set_by_property(places.control, unit, name):
            os.unlink(path)
    outcome.done.append(f"{unit}: {' '.join(settings)}")
    return wanted


def _by_hand(places: Places, unit: str, name: str) -> bool:
    return any(set_by_property(one, unit, name) for one in (places.control, places.kept))


def _before(places: Places) -> dict[int, dict[str, str]]:
    """What slices were told last; a damaged record: nothing is known, and jobs raise what they have once more."""
    try:
        found = json.loads(read_bytes(os.path.join(places.run, RECORD)) or b"{}")
        return {int(uid): {str(name): str(told[name]) for name in told if name in _FREE} for uid, told in found.items()}
    except (ValueError, AttributeError, TypeError):
        return {}

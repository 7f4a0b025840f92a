"""Grants that are jobs': which of them have ended, and which were given more time, by what Slurm says on this node.

Slurm's own programs may take for ever to answer; here they have five seconds. Whatever they do not say changes nothing:
the job's end, which its grant has from its beginning, closes it in any case.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from .. import cgroups
from ..errors import NodeError, in_words
from ..lookup import name_of
from ..run import Finished, Runner
from . import grants
from .grants import Grant

SOURCE = "slurm"
#: Seconds after its start in which a job that is not listed yet keeps its grant.
STARTING = 120
#: A grant is asked about when it ends within so many seconds: the job may have been given more time.
SOON = 150
#: Where Slurm runs a job: root alone makes cgroups there.
_CGROUP = re.compile(r"/system\.slice/[^/]*slurmstepd\.scope/job_([1-9][0-9]{0,9})(?:/|\Z)")
_LISTED = re.compile(r"(?m)^\s*([1-9][0-9]{0,9})\b")
_END = re.compile(r"[0-9]{1,12}")


def running(bases: Sequence[str] = cgroups.BASES) -> set[str]:
    """Whose jobs run on this node, with GPUs or without. What root has there is Slurm's own."""
    found = set()
    for base in bases:
        for path in glob.glob(f"{base}/system.slice/*slurmstepd.scope/job_*/**/cgroup.procs", recursive=True):
            with suppress(OSError), open(path, encoding="ascii") as stream:  # it may have ended
                found |= {cgroups.owner_of(int(one)) for one in stream}
    return {name_of(uid) or f"uid {uid}" for uid in found if uid}


def granted(cgroup: str, uid: int, found: Iterable[Grant], now: float) -> set[str]:
    """The GPUs that a job's processes may open, by the cgroup that they are in: Slurm itself keeps them from others."""
    match = _CGROUP.match(cgroup)
    if match is None:
        return set()
    # guard: a job opens what its own grant has, and no longer -> list(found)
    mine = [one for one in found if one.id == f"{SOURCE}-{match[1]}" and one.uid == uid and one.holds(now)]
    return {gpu for one in mine for gpu in one.gpus}


def ended(found: Iterable[Grant], command: Runner, now: float) -> list[Grant]:
    """Grants of jobs that are no longer on this node. Where Slurm does not answer: none; their end closes them."""
    asked = [one for one in found if one.source == SOURCE and now - one.begin > STARTING]
    if not asked:
        return []
    done = _asked(command, ("scontrol", "listjobs"))
    # where there is none it says so as an error, and succeeds (seen)
    said = (done.stdout or done.stderr) if done is not None and done.returncode == 0 else ""
    # guard: an answer that nobody understands ends no job's grant
    if not re.match(r"JOBID|No slurmstepd", said):
        return []
    here = set(_LISTED.findall(said))
    return [one for one in asked if one.id[len(SOURCE) + 1 :] not in here]


def prolonged(found: Iterable[Grant], command: Runner, now: float) -> list[Grant]:
    """Grants of jobs that were given more time, with their new end. Slurm's controller is asked only shortly before."""
    result = []
    for one in found:
        if one.source != SOURCE or not one.until - SOON < now < one.until:
            continue
        # this field alone: what scontrol prints of a job has its name in it, which its person chooses. In seconds: one
        # hour of local time comes twice when clocks go back
        asked = ("squeue", "--noheader", f"--jobs={one.id[len(SOURCE) + 1 :]}", "--format=%e")
        done = _asked(command, ("env", "SLURM_TIME_FORMAT=%s", *asked))
        said = done.stdout.strip() if done is not None and done.returncode == 0 else ""
        if not _END.fullmatch(said):  # guard: an end that Slurm does not say prolongs nothing
            continue
        if int(said) > one.until:
            result.append(replace(one, until=min(int(said), grants.LATEST)))
    return result


def with_more_time(
    found: Sequence[Grant], command: Runner, now: float, run: str
) -> tuple[list[Grant], list[str]]:  # fmt: skip
    """The same grants, those with their new end that were given more time, which is recorded; and what was not."""
    result, problems = {one.id: one for one in found}, []
    for later in prolonged(found, command, now):
        try:
            grants.write_until_boot(later, run)
        except (NodeError, OSError) as error:  # guard: more time for one job keeps nobody else's end waiting
            problems.append(f"the grant {later.id} could not be given more time: {in_words(error)}")
            continue
        result[later.id] = later
    return list(result.values()), problems


def _asked(command: Runner, words: Sequence[str]) -> Finished | None:
    try:
        return command(("timeout", "5", *words))
    except (NodeError, OSError):
        return None

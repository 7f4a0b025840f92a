"""Jobs that have GPUs of this node: at a job's start its person is granted them (prolog), at its end no more (epilog).

slurmd runs both as root and says in the environment which job it is. A prolog that fails drains the node and the job
goes back to the queue: nobody computes without what Slurm gave them. What a job's grant opens is closed by an epilog,
by the reconciler where the job is gone, and by the job's end in any case.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from .. import health
from ..errors import NodeError, in_words
from ..files import flocked
from ..gpus import device_files, gate, grants, reconcile
from ..gpus.gate import Places
from ..gpus.grants import SOURCE, Grant
from . import divided, draining, job_use, slice_limits

#: Seconds that a job whose end nobody says is granted; the reconciler asks before they are over.
UNKNOWN_END = 900
_ID = re.compile(r"[1-9][0-9]{0,9}\Z")
_INDEX = re.compile(r"[0-9]{1,3}\Z")


@dataclass(frozen=True)
class Job:
    """A job on this node, as slurmd says. ``gpus``: their numbers here. ``until``: seconds since 1970. ``node``: what
    Slurm calls this one."""

    id: str
    user: str
    uid: int
    gpus: Sequence[int]
    until: int
    node: str = ""

    @property
    def grant(self) -> str:
        """What its grant is called."""
        return f"{SOURCE}-{self.id}"


def read_prolog_job(environment: Mapping[str, str], now: float) -> Job:
    """The job that a prolog or an epilog is run for. Raises NodeError."""
    number, uid = environment.get("SLURM_JOB_ID", ""), environment.get("SLURM_JOB_UID", "")
    if not _ID.match(number) or not uid.isdecimal():
        raise NodeError("slurmd does not say which job this is (SLURM_JOB_ID, SLURM_JOB_UID)")
    listed = [one for one in environment.get("SLURM_JOB_GPUS", "").split(",") if one]
    if not all(_INDEX.match(one) for one in listed):
        raise NodeError(f"job {number}: SLURM_JOB_GPUS has no numbers of GPUs")
    end = environment.get("SLURM_JOB_END_TIME", "")
    until = int(end) if end.isdecimal() else int(now) + UNKNOWN_END
    return Job(number, environment.get("SLURM_JOB_USER", ""), int(uid), [int(one) for one in listed], until,
               environment.get("SLURMD_NODENAME", ""))  # fmt: skip


def begin(job: Job, places: Places, now: float | None = None) -> list[str]:
    """Grant a job's GPUs to its person, and return what was done. Raises NodeError, which drains the node."""
    # drained by us, with words, before slurmd does it: what passes by itself then ends that drain
    node = health.look_at_node(places, health.BURST)
    # guard: no job begins on a node that is sick or full
    if node.words and (why := draining.close(job.node, node)):
        raise NodeError(f"job {job.id}: {job.node} takes no jobs: {why}")
    # before the locks: slurmctld may take its time
    share = slice_limits.ask(job.id, job.node, places.command)
    # seen after slurmctld was killed while a job ended: slurmd names none, and the job's own cgroup has them
    # guard: a job has the GPUs of which slurmd is silent
    job = job if job.gpus else replace(job, gpus=share.gpus)
    if not job.gpus and share.some:  # guard: a job that has GPUs of which nobody says which they are does not start
        raise NodeError(f"job {job.id}: Slurm does not say which GPUs of this node it has")
    if not job.gpus:
        return []
    with ExitStack() as stack:
        # guard: a job is given no GPU that is being divided or granted
        stack.enter_context(flocked(reconcile.adding_path(places)))
        # guard: a job's GPUs are opened while nobody else changes grants
        stack.enter_context(flocked(reconcile.lock_path(places)))
        now = time.time() if now is None else now
        settings = gate.read(places.settings)
        if settings.access != "granted":
            return []  # everybody opens them anyway
        owner = places.lookup(job.user)
        # guard: a job's grant is of whoever has the uid on this host
        if owner is None or owner[0] != job.uid:
            raise NodeError(f"job {job.id}: {job.user[:40]!r} does not have the uid {job.uid} on this host")
        there = device_files.gpus(settings, places.root)
        fetched = divided.listed(job.node, places.root)
        names = [_name(number, there, fetched, job) for number in job.gpus]
        found, problems = grants.read(places.state, places.run)
        if problems:  # guard: where a grant cannot be read no job has a GPU
            raise NodeError(problems[0])
        others = [one for one in found if set(one.gpus) & set(names) and one.id != job.grant and now < one.until]
        for one in others:
            # guard: a job takes no GPU that an admin has granted to somebody
            if one.source != SOURCE:
                taken = grants.words(gpu for gpu in names if gpu in one.gpus)
                raise NodeError(
                    f"job {job.id}: {one.user} was granted {taken} by {one.who} (grant {one.id}): "
                    f"gpuadmin revoke {one.user}, then gpuadmin resume"
                )
        # guard: a GPU that Slurm gives to the next job is no longer the last one's
        grants.delete([one.id for one in others], places.state, places.run)
        until = max(job.until, share.until, int(now) + 1)
        grants.write_until_boot(
            Grant(
                job.grant, job.user, job.uid, names, int(now), until, share.who or "Slurm",
                share.reason or f"job {job.id}", SOURCE, share.memory, share.processors,
            ),
            places.run,
        )  # fmt: skip
        outcome = reconcile.under_lock(places, now, whole=False)
        if outcome.problems:  # guard: a job whose GPUs could not be opened does not start
            raise NodeError("; ".join(outcome.problems))
    return [*outcome.done, *_raise(places, now)]


def _raise(places: Places, now: float) -> list[str]:
    """Limits follow jobs. What is wrong with that keeps no job from its GPUs: the timer tries again."""
    try:
        found = slice_limits.apply(places, now)
    except (NodeError, OSError) as error:  # guard: whoever holds the limits' lock keeps no job from its GPUs
        return [f"limits do not follow jobs: {in_words(error)}"]
    return [*found.done, *found.problems]


def end(job: Job, places: Places) -> list[str]:
    """End a job's grant, and return what was done. One that is not there has ended. Raises NodeError."""
    with flocked(reconcile.lock_path(places)):  # guard: a job's GPUs are closed while nobody else changes grants
        problems = grants.delete([job.grant], places.state, places.run)
        outcome = reconcile.under_lock(places, time.time(), whole=False)
    # what has broken under this job keeps the next one away at once
    if (seen := health.look_at_node(places, health.JUST_NOW)).words:
        draining.close(job.node, seen)
    if problems or outcome.problems:  # guard: where a job's GPUs could not be closed no other job starts
        raise NodeError("; ".join([*problems, *outcome.problems]))
    return [*outcome.done, *_raise(places, time.time())]


def _name(number: int, there: Mapping[str, Sequence[str]], fetched: Sequence[Sequence[str]] | None, job: Job) -> str:
    found = divided.find_device(number, there, fetched)
    if found is None:
        files = [f"/dev/nvidia{number}"] if fetched is None else fetched[number : number + 1]
        raise NodeError(
            f"job {job.id}: GPU {number} ({files or 'not in gres.conf'}) does not answer on this host; where GPUs were "
            "divided since: gpuadmin provision"
        )
    return found


def main(what: str, places: Places | None = None, environment: Mapping[str, str] | None = None) -> int:
    """``slurm-prolog`` or ``slurm-epilog``. 1 where the node must be drained; slurmd's log has why."""
    where = places or Places()
    given = os.environ if environment is None else environment
    try:
        job = read_prolog_job(given, time.time())
        if what == "slurm-epilog":
            job_use.look(where, job.id)
        done = begin(job, where) if what == "slurm-prolog" else end(job, where)
    except OSError as error:
        raise NodeError(in_words(error)) from None
    for one in done:
        print(one)
    return 0

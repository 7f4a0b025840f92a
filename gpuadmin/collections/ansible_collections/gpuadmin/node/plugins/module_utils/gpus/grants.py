"""Grants: who may use which GPU of this host until when. A file each, written whole; an admin or a scheduler decides.

A file that is damaged, or whose time is over, opens nothing. One that is over is deleted: no clock that is put back
makes it hold again. Where the disk takes no change, that it has ended is remembered until the next boot.

Slurm's own programs may take for ever to answer; here they have five seconds. Whatever they do not say changes nothing:
the job's end, which its grant has from its beginning, closes it in any case.
"""

from __future__ import annotations

import glob
import json
import os
import re
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from gpuadmin.common.records import gpus as records

from .. import cgroups
from ..documents import parse
from ..errors import NodeError, in_words
from ..fields import FIRST_HUMAN_UID
from ..files import make_directory, read_bytes, sync_directory, unlink_if_present, write_atomic
from ..logins import announcements
from ..lookup import find_name
from ..paths import RUN, STATE
from ..run import Finished, Runner
from . import gate
from .gate import Settings

DIRECTORY = "gpu-grants"
OF_JOBS = "-grants"  # behind RUN, which is root's alone: everybody may read who was granted what
ENDED = "gpu-grants-ended.json"
LONGEST = 200  # characters of a reason
LARGEST = 1 << 16  # bytes of a file
LATEST = 253_370_000_000  # seconds since 1970: dates go no further than the year 9999
NO_UID = 2**32 - 1
_ID = re.compile(r"[a-z0-9-]{1,40}\Z")
_GPU = re.compile(r"[A-Za-z0-9-]{1,80}\Z")


@dataclass(frozen=True)
class Grant(records.Grant):
    """A grant, and whether it is in force. ``checked`` says in words where its times are none."""

    begin: int
    until: int
    reason: str = ""

    def holds(self, now: float) -> bool:
        """Whether it is in force. Before its beginning it is not: the clock was put back."""
        # guard: a grant whose time is over opens nothing -> self.begin <= now
        return self.begin <= now < self.until


def words(gpus: Iterable[str]) -> str:
    """GPUs in words. UUIDs say themselves what they are of."""
    return ", ".join(f"GPU {one}" if one.isdecimal() else one for one in gpus)


def checked(grant: Grant) -> Grant:
    """Raises NodeError where a grant is not one that can be written."""
    if not _ID.match(grant.id):  # guard: a grant's id is not a path
        raise NodeError(f"a grant has no usable id: {grant.id[:60]!r}")
    if not grant.gpus or not all(_GPU.match(one) for one in grant.gpus):
        raise NodeError(f"grant {grant.id}: it names no GPU, or one that no GPU is called")
    if not FIRST_HUMAN_UID <= grant.uid < NO_UID:  # guard: root and daemons are granted nothing
        raise NodeError(f"grant {grant.id}: uid {grant.uid} is nobody's who needs a grant")
    if grant.begin >= grant.until:
        raise NodeError(f"grant {grant.id}: it ends before it begins")
    if grant.until > LATEST:  # guard: a grant ends at a time that dates can say
        raise NodeError(f"grant {grant.id}: its end is not a time")
    for text in (grant.reason, grant.who, grant.user, grant.source):
        if len(text) > LONGEST or not text.isprintable():
            raise NodeError(f"grant {grant.id}: a text must have at most {LONGEST} printable characters")
    return grant


def read(state: str = STATE, run: str = RUN) -> tuple[list[Grant], list[str]]:
    """All grants that are recorded and have not been ended, and what is wrong with files that open nothing."""
    found: dict[str, Grant] = {}
    problems: list[str] = []
    over, paths = ended(run), []
    for directory in (os.path.join(state, DIRECTORY), run + OF_JOBS):
        try:
            _only_roots(directory)
            paths += sorted(os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".json"))
        except FileNotFoundError:
            continue
        except (NodeError, OSError) as error:  # guard: grants that cannot be listed are not taken for none
            return [], [f"no grant is known: {in_words(error)}"]
    for path in paths:
        try:
            if _only_roots(path).st_size > LARGEST:
                raise NodeError(f"{path} is larger than any grant")
            grant = checked(parse(Grant, json.loads(read_bytes(path) or b""), path))
            if os.path.basename(path) != f"{grant.id}.json":
                raise NodeError(f"{path} has the grant {grant.id}")
        # guard: a damaged grant opens nothing, and stops no other
        except (NodeError, OSError, ValueError, RecursionError) as error:
            problems.append(f"{path} opens nothing: {in_words(error)}; remove it, then grant again")
            continue
        # guard: what has ended opens nothing, though its file is still there -> found.update({grant.id: grant})
        if grant.id not in over:
            if grant.source != SOURCE:  # Slurm holds windows by itself
                grant = replace(grant, until=announcements.find_window(state, grant.begin, grant.until))
            found[grant.id] = grant  # of a job that began under a release before: the later one is in memory
    return list(found.values()), problems


def _only_roots(path: str) -> os.stat_result:
    """Raises NodeError where somebody else can write it: whoever can would grant themselves what they like."""
    facts = os.lstat(path)
    # guard: who can write a grant is root alone
    if facts.st_uid not in (0, os.geteuid()) or (not stat.S_ISLNK(facts.st_mode) and facts.st_mode & 0o022):
        raise NodeError(f"{path} can be written by others than root")
    return facts


def write(grant: Grant, state: str = STATE) -> None:
    """Record a grant, durably."""
    _write(grant, os.path.join(state, DIRECTORY))


def write_until_boot(grant: Grant, run: str = RUN) -> None:
    """Record a job's grant, which ends with the boot as its job does. Nobody else takes that room."""
    _write(grant, run + OF_JOBS)


def _write(grant: Grant, directory: str) -> None:
    make_directory(directory, 0o755)
    data = json.dumps(asdict(checked(grant)), ensure_ascii=False, indent=1) + "\n"
    write_atomic(os.path.join(directory, f"{grant.id}.json"), data.encode(), mode=0o644)


def delete(names: Iterable[str], state: str = STATE, run: str = RUN) -> list[str]:
    """End these grants for good, durably. One that is not there is no error. Returns why a file is still there: the
    disk is full, or takes no change. It has ended all the same, until the next boot by what ``run`` has.
    """
    directory, gone, problems, left = os.path.join(state, DIRECTORY), False, [], []
    before = ended(run)
    for name in sorted({*names, *before}):
        unlink_if_present(os.path.join(run + OF_JOBS, f"{name}.json"))
        path = os.path.join(directory, f"{name}.json")
        try:
            os.unlink(path)
            gone = True
        except FileNotFoundError:
            pass
        except OSError as error:  # guard: an end does not wait for a disk
            left.append(name)
            problems.append(f"{path} has ended and cannot be removed: {in_words(error)}")
    try:
        if gone:
            sync_directory(directory)  # guard: after a power cut no grant is there again that has ended
        if left != before:
            write_atomic(os.path.join(run, ENDED), json.dumps(left).encode(), mode=0o644, sync=False)
    except OSError as error:
        problems.append(f"that grants have ended could not be recorded: {in_words(error)}")
    return problems


def ended(run: str = RUN) -> list[str]:
    """Ids of grants that have ended, and whose files could not be removed so far."""
    try:
        return sorted({one for one in json.loads(read_bytes(os.path.join(run, ENDED)) or b"[]") if _ID.match(one)})
    except (NodeError, OSError, ValueError, TypeError):
        return []


def by_uid(grants: Iterable[Grant], now: float) -> dict[int, list[str]]:
    """What each person may use now: the union of their grants, in order."""
    found: dict[int, set[str]] = {}
    for one in grants:
        if one.holds(now):
            found.setdefault(one.uid, set()).update(one.gpus)
    return {uid: sorted(gpus) for uid, gpus in sorted(found.items())}


def choose(wanted: Sequence[str] | int, there: Iterable[str], others: Iterable[Grant], now: float) -> list[str]:
    """The GPUs of a new grant: those that are named, or so many that nobody was granted. Raises NodeError.

    A GPU is granted to one at a time.
    """
    taken = {gpu: one for one in others if now < one.until for gpu in one.gpus}
    known = list(there)
    if isinstance(wanted, int):
        free = [one for one in known if one not in taken]
        if len(free) < wanted:
            raise NodeError(
                f"GPUs asked for: {wanted}; granted to nobody: {len(free)} of {len(known)} (see gpuadmin grants)"
            )
        return free[:wanted]
    for one in wanted:
        if one not in known:
            raise NodeError(f"there is no GPU {one[:80]}; there are: {', '.join(known) or 'none'}")
        if one in taken:  # guard: what somebody was granted is not another's
            raise NodeError(
                f"GPU {one} is granted to {taken[one].user} (grant {taken[one].id}): name another, or revoke that first"
            )
    return list(dict.fromkeys(wanted))  # by its place and by its name it is one GPU


def start_time(pid: int, proc: str = "/proc") -> int | None:
    """When a process began, in ticks since the boot (field 22 of proc(5)); None: there is none. Raises OSError."""
    try:
        with open(f"{proc}/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            fields = stream.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def ended_runs(found: Iterable[Grant], proc: str) -> list[Grant]:
    """Grants that hold as long as a process, which has ended."""
    over = []
    for one in found:
        try:
            # guard: a grant does not outlive the process that it was given to, nor go to one that has its number now
            if one.process and start_time(one.process, proc) != one.started:
                over.append(one)
        except (OSError, ValueError, IndexError):  # guard: a process of which nobody knows keeps its grant
            continue
    return over


SOURCE = "slurm"
#: Seconds after its start in which a job that is not listed yet keeps its grant.
STARTING = 120
#: A grant is asked about when it ends within so many seconds: the job may have been given more time.
SOON = 150
#: Where Slurm runs a job: root alone makes cgroups there.
_CGROUP = re.compile(r"/system\.slice/[^/]*slurmstepd\.scope/job_([1-9][0-9]{0,9})(?:/|\Z)")
#: What lists a node's jobs: a word of scontrol's, its most exit status, how its answer begins, and where a job's number
#: is. Where there is no job they say so as an error (seen). Before Slurm 23.11 there is only the second.
_LISTS = (
    ("listjobs", 0, "JOBID|No slurmstepd", r"(?m)^\s*([1-9][0-9]{0,9})\b"),
    ("listpids", 1, r"PID +JOBID|No job steps exist", r"(?m)^\s*-?[0-9]+\s+([1-9][0-9]{0,9})\b"),
)
_END = re.compile(r"[0-9]{1,12}")


def running(bases: Sequence[str] = cgroups.BASES) -> set[str]:
    """Whose jobs run on this node, with GPUs or without. What root has there is Slurm's own."""
    found = set()
    for base in bases:
        for path in glob.glob(f"{base}/system.slice/*slurmstepd.scope/job_*/**/cgroup.procs", recursive=True):
            with suppress(OSError), open(path, encoding="ascii") as stream:  # it may have ended
                found |= {cgroups.find_owner(int(one)) for one in stream}
    return {find_name(uid) or f"uid {uid}" for uid in found if uid}


def granted(cgroup: str, uid: int, found: Iterable[Grant], now: float) -> set[str]:
    """The GPUs that a job's processes may open, by the cgroup that they are in: Slurm itself keeps them from others."""
    match = _CGROUP.match(cgroup)
    if match is None:
        return set()
    # guard: a job opens what its own grant has, and no longer -> list(found)
    mine = [one for one in found if one.id == f"{SOURCE}-{match[1]}" and one.uid == uid and one.holds(now)]
    return {gpu for one in mine for gpu in one.gpus}


def ended_jobs(found: Iterable[Grant], command: Runner, now: float) -> list[Grant]:
    """Grants of jobs that are no longer on this node. Where Slurm does not answer: none; their end closes them."""
    asked = [one for one in found if one.source == SOURCE and now - one.begin > STARTING]
    if not asked:
        return []
    for word, status, understood, listed in _LISTS:
        done = _asked(command, ("scontrol", word))
        said = (done.stdout or done.stderr) if done is not None and done.returncode <= status else ""
        # guard: an answer that nobody understands ends no job's grant
        if re.match(understood, said):
            here = set(re.findall(listed, said))
            return [one for one in asked if one.id[len(SOURCE) + 1 :] not in here]
    return []


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
            result.append(replace(one, until=min(int(said), LATEST)))
    return result


def with_more_time(
    found: Sequence[Grant], command: Runner, now: float, run: str
) -> tuple[list[Grant], list[str]]:  # fmt: skip
    """The same grants, those with their new end that were given more time, which is recorded; and what was not."""
    result, problems = {one.id: one for one in found}, []
    for later in prolonged(found, command, now):
        try:
            write_until_boot(later, run)
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


def in_force(
    now: float, state: str = STATE, settings: str = gate.SETTINGS, run: str = RUN
) -> tuple[Settings, list[Grant]] | None:
    """The settings, and the grants that have not ended; None where GPUs are open to everybody.

    Raises NodeError where not all of it can be read, and OSError.
    """
    found = gate.read(settings)
    if found.access != "granted":
        return None
    listed, problems = read(state, run)
    if problems:  # guard: a grant that cannot be read ends nobody's work
        raise NodeError(problems[0])
    return found, [one for one in listed if now < one.until]

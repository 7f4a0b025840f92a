"""Operations on Slurm: its accounts, its nodes, and its queue."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Optional

from gpuadmin.common import slurm_releases
from gpuadmin.common.records.files import File, FilesOrder
from gpuadmin.common.records.queue import Group, Owns

from ..answer import Answer
from ..documents import entries
from ..errors import NodeError
from ..fields import quoted
from ..files import read_bytes, write_atomic
from ..lookup import system_lookup
from ..operation import operation
from ..paths import STATE
from ..root.operations import ensure_files
from ..run import LateError, run, run_command
from ..system import os_release
from . import accounts, booking, draining, exceptions, nodes, notices, partitions, queue, queue_report
from .accounts import ASK_PEOPLE, ASK_PROJECTS, ASK_QOS
from .booking import Reservation

#: Seconds for slurmctld to register the cluster with slurmdbd, once both have started.
REGISTERED = 90
_CLUSTER = ("sacctmgr", "-nP", "show", "cluster", "format=cluster,controlhost")


@dataclass(frozen=True)
class SlurmAccounts:
    """Bring Slurm's accounts to people and groups.

    Accounts that are not mentioned are kept. Whoever is locked, over or removed may submit nothing, and what of theirs
    runs or waits is cancelled; what they have used stays known.
    """

    #: People, as the operation ``accounts`` takes them.
    users: Any = "[]"
    #: People who have left.
    absent: Any = "[]"
    #: The groups; one is called ``people`` and has everybody who is not in another.
    groups: Sequence[Group] = ()
    #: Person → where mails about their jobs go, as JSON. Null: nothing is said of them.
    addresses: Optional[str] = None


#: What sacctmgr says of somebody whose jobs run in the group that they are to leave.
_RUNS = "Job(s) active"


@operation("slurm_accounts", SlurmAccounts, role="slurm_controller")
def converge_slurm_accounts(document: SlurmAccounts, check: bool) -> Answer:
    users, absent = entries("users", document.users), entries("absent", document.absent)
    people = accounts.parse_slurm_people(users, absent, document.groups, int(time.time() // 86400))
    if shutil.which("sacctmgr") is None:
        if not check:
            raise NodeError("Slurm is not set up on this host yet: gpuadmin provision; it brings these people along")
        there = accounts.Seen()
    else:
        _wait()
        there = accounts.seen(run(ASK_PEOPLE), run(ASK_QOS), _bookings(), run(ASK_PROJECTS))
    found = accounts.commands(document.groups, people, there)
    problems: list[str] = []
    done: list[tuple[str, ...]] = []
    if document.addresses is not None and not check:
        notices.keep_people([one.name for one in people], json.loads(document.addresses))
    for command in found:
        try:
            if not check:
                run(command)
            done.append(command)
        except NodeError as error:  # guard: what Slurm refuses of one keeps nobody else from their account
            # a job that runs keeps its person's old group: it goes in a later run
            problems += [] if _RUNS in str(error) else [str(error)]
    # guard: what runs or waits of whoever is locked ends, also what an earlier run could not cancel -> False
    if any(person.locked for person in people) and shutil.which("squeue"):
        try:  # after Slurm takes no more of theirs
            jobs = accounts.find_jobs(people, queue.table(accounts.JOB_FIELDS), queue.BETWEEN)
            if jobs:
                done.append(("scancel", *jobs))
                if not check:
                    run(done[-1])
        except NodeError as error:
            problems.append(f"jobs of whoever is locked may still run or wait: {error}")
    if problems:
        raise NodeError("; ".join(problems))
    return Answer([_words(one) for one in done])


def _bookings() -> Sequence[Reservation]:
    """Those that have not begun. Where slurmctld does not say, nobody is kept from being locked."""
    try:
        queue.alive()
        return [one for one in booking.reservations() if one.begin > time.time()]
    except NodeError:
        return ()


def _words(command: Sequence[str]) -> str:
    return f"Slurm: {' '.join(one for one in command if one != '-i')}"


def _wait() -> None:
    """Nobody can be added before that: sacctmgr says "Nothing added"."""
    end = time.monotonic() + REGISTERED
    while True:
        try:
            if any(line.partition("|")[2] for line in run(_CLUSTER).splitlines()):
                return
            why = "slurmctld has not registered"
        except NodeError as error:
            why = str(error)
        if time.monotonic() > end:
            raise NodeError(f"Slurm's accounting does not answer: {why}")
        time.sleep(1)  # between two questions


RECORD = "slurm-nodes.json"
READ = 3.0  # seconds; it reads in a hundredth, and then asks the controller


#: Where slurm.conf includes nodes.conf, or has it.
_INCLUDED = re.compile(r"(?m)^(?:# )?Include nodes\.conf$")


@dataclass(frozen=True)
class DeclaredNode:
    name: str
    address: str
    #: How many GPUs the inventory says that it has.
    gpus: Optional[int] = None
    #: What they are, as the inventory says.
    model: Optional[str] = None


@dataclass(frozen=True)
class SlurmNodes:
    """Write what Slurm is told: slurm.conf and cgroup.conf as they are given, nodes.conf and gres.conf.

    Slurm reads all of it before any of it is in place; what it refuses leaves everything as it is.
    What nodes have is recorded in the controller's state, so that a run that looks at one of them does not take the
    others out. A node that nobody has looked at yet is left out.
    """

    #: The nodes that jobs run on.
    nodes: Sequence[DeclaredNode]
    #: Node → ``processors``, ``memory`` (MiB), ``gpus``, ``model`` and ``parts``, of those that this run has looked at.
    hardware: Any
    #: The longest job of all groups.
    hours: int
    #: Where nodes reach the controller, which is this host.
    address: str
    #: The nodes that a group comes first on, and how others leave them then.
    owned: Sequence[Owns] = ()
    notice: int = 5
    preempted: str = "requeue"
    #: What the queue's oldest Slurm does not know (``slurm_releases.SINCE``).
    lacks: Sequence[str] = ()
    #: The contents of slurm.conf and cgroup.conf; without them those that are there stay.
    slurm_conf: str = ""
    cgroup_conf: str = ""
    directory: str = "/etc/slurm"
    #: Commands to run when something has changed.
    after: Sequence[Sequence[str]] = ()
    #: As that of gpuadmin.node.files.
    follows: str = ""


@operation("slurm_nodes", SlurmNodes, role="slurm_controller")
def write_nodes(document: SlurmNodes, check: bool, state: str = STATE) -> Answer:
    path = os.path.join(state, RECORD)
    try:
        before = json.loads(read_bytes(path) or b"{}")
        if not isinstance(before, dict):
            raise ValueError("it is not a mapping")
    except ValueError as error:
        raise NodeError(f"{path} is damaged: {error}; remove it, then gpuadmin provision") from None
    now = {name: has for name, has in dict(document.hardware or {}).items() if isinstance(has, dict)}
    found = nodes.known([asdict(one) for one in document.nodes], before, now)
    if not found:
        raise NodeError("no node has said yet what it has: gpuadmin provision, without --limit")
    record = {
        one.name: {
            "processors": one.processors,
            "memory": one.memory,
            **{key: (now.get(one.name) or before[one.name]).get(key) for key in ("gpus", "model", "parts")},
        }
        for one in found
    }
    given = {"slurm.conf": document.slurm_conf, "cgroup.conf": document.cgroup_conf}
    controller = (os.uname().nodename, document.address)
    conf = nodes.nodes_conf(found, document.hours, controller, document.owned, document.notice, document.preempted)
    leaving = partitions.keep_partitions(_current(document.directory, "nodes.conf"), conf, [one.name for one in found])
    # guard: a partition that goes stays while there are jobs -> False
    conf += "".join(leaving if leaving and queue.owners() != [] else [])
    contents = {
        **{name: text or _current(document.directory, name) for name, text in given.items()},
        "nodes.conf": conf,
        "gres.conf": nodes.gres_conf(found),
    }
    if "include" in document.lacks:
        contents["slurm.conf"] = _INCLUDED.split(contents["slurm.conf"])[0] + f"# Include nodes.conf\n{conf}"
    read_by_slurm(contents)
    if record != before and not check:
        write_atomic(path, json.dumps(record, indent=1).encode(), mode=0o644)
    wanted = [File(f"{document.directory}/{name}", text) for name, text in contents.items()]
    return ensure_files(FilesOrder(files=wanted, after=document.after, follows=document.follows), check)


def _current(directory: str, name: str) -> str:
    """What is in place, where nothing else is given."""
    return (read_bytes(os.path.join(directory, name)) or b"").decode()


def read_by_slurm(contents: Mapping[str, str]) -> None:
    """Have Slurm read a configuration that is not in place. Raises NodeError with what it says of it.

    scontrol reads slurm.conf, and nodes.conf with it, before it asks anybody anything; where it has no answer to that,
    it has read them. Nothing of Slurm's that acts on nobody reads the other two.
    """
    if shutil.which("scontrol") is None:
        return  # the first time: there is nothing yet that it could replace
    with tempfile.TemporaryDirectory(prefix="gpuadmin-slurm-") as place:
        for name, text in contents.items():
            with open(os.path.join(place, name), "w", encoding="utf-8") as stream:
                stream.write(text)
        try:
            done = run_command(("scontrol", "ping"), seconds=READ, environment={"SLURM_CONF": f"{place}/slurm.conf"})
        except LateError:
            return
    said = [line.partition(": ")[2] for line in done.stderr.replace(f"{place}/", "").splitlines()]
    # guard: a configuration that Slurm does not read replaces none
    if done.returncode != 0 and any(one.startswith("fatal: ") for one in said):
        wrong = [one.partition("error: ")[2] for one in said if one.startswith("error: ")]
        raise NodeError(f"Slurm refuses its new configuration, and keeps the one that it has: {'; '.join(wrong)}"[:600])


@dataclass(frozen=True)
class SlurmOrder:
    """Fail where Slurm's controller does not understand a node's slurmd: it is newer, or too old.

    Asked of the controller's host. Where nothing is installed yet, what the distribution has counts.
    """

    #: The release of the node's slurmd, such as 24.11.
    slurmd: str


@operation("slurm_order", SlurmOrder, looks=True)
def check_order(document: SlurmOrder, check: bool) -> Answer:
    mine = slurm_releases.find_release(queue.version("slurmctld"), os_release().get("VERSION_CODENAME", ""))
    if words := slurm_releases.describe_misfit(mine, document.slurmd):
        raise NodeError(words)
    return Answer()


@dataclass(frozen=True)
class QueueOrder:
    """Ask slurmctld for its queue."""


@operation("slurm_queue", QueueOrder, looks=True)
def report_queue(document: QueueOrder, check: bool) -> Answer:
    queue.alive()
    return Answer(report=queue_report.report(), changed=False)


@dataclass(frozen=True)
class DrainOrder:
    """Let nodes take no further jobs, or take jobs again. What runs there goes on."""

    drain: draining.Wanted


@operation("slurm_drain", DrainOrder, role="slurm_controller")
def drain_nodes(document: DrainOrder, check: bool) -> Answer:
    wanted = document.drain
    if wanted.mark and shutil.which("scontrol") is None:
        return Answer()  # there is no queue on this host yet, so it starts no job
    try:
        queue.alive()
    except queue.AwayError:
        # guard: where Slurm's controller does not answer a node is taken away by force alone
        if not (wanted.mark and wanted.force):
            raise
        return Answer(more={"remarks": ["the queue does not answer: a job may start there meanwhile"]})
    changing = draining.bring(wanted, check=check)
    done = [f"{name}: takes jobs again" if wanted.resume else f"{name}: takes no further job" for name in changing]
    report = queue_report.report()
    jobs = [words for name in wanted.nodes for words in queue.on(report["queue"]["jobs"], name)]
    if wanted.empty and jobs and not wanted.force:
        in_use = f"in use by {', '.join(jobs)}"
        return Answer(done, report, problem=in_use, more={"progress": f"waits: {in_use}"})
    return Answer(done, report)


@dataclass(frozen=True)
class WantedException:
    """As an admin asks for it. ``until``: seconds since 1970."""

    id: str
    user: str
    uid: int
    node: str
    gpus: int
    until: int
    who: str
    reason: str = ""


@dataclass(frozen=True)
class ExceptionOrder:
    """Have somebody's job start now, without limits and before all others, or say who is in its way; or cancel jobs.

    Nothing waits: what does not start is called off.
    """

    #: The exception to make. One of this id that is there is left as it is.
    exception: Optional[WantedException] = None
    #: Jobs to cancel. One that is not there has ended.
    end: Sequence[str] = ()
    #: Why, for what their people read: ``idle``, or nothing.
    why: str = ""


@operation("slurm_exception", ExceptionOrder, role="slurm_controller")
def make_exception(document: ExceptionOrder, check: bool) -> Answer:
    if not all(queue.JOB.match(one) for one in document.end):
        raise NodeError("these are not numbers of jobs")
    queue.alive()
    before = queue_report.report()["queue"]
    here = {one["id"] for one in before["jobs"]}
    ending = [one for one in document.end if one in here]
    done = [f"cancel job {one}" for one in ending]
    if ending and not check:
        noted = exceptions.read_comments(ending) if document.why == "idle" else {}
        for job, made in noted.items():
            with suppress(NodeError):  # it is only what its person reads
                note = json.dumps({**made, "ended": "idle"}, ensure_ascii=True)
                queue.ask(("scontrol", "update", f"JobId={job}", f"AdminComment={note}"))
        queue.ask(("scancel", *ending))
    wanted = document.exception
    if wanted is not None and not any((one["exception"] or {}).get("id") == wanted.id for one in before["jobs"]):
        _check(wanted)
        done.append(f"give {wanted.user} {wanted.gpus} GPU{'' if wanted.gpus == 1 else 's'} of {wanted.node}")
        if not check:
            words = {"id": wanted.id, "who": wanted.who, "reason": wanted.reason}
            exceptions.make(wanted.uid, wanted.node, wanted.gpus, wanted.until, words)
    return Answer(done, queue_report.report())


def _check(wanted: WantedException) -> None:
    # guard: an exception is of whoever has the uid on this host
    if (system_lookup(wanted.user) or (None,))[0] != wanted.uid:
        raise NodeError(f"{quoted(wanted.user)} does not have the uid {wanted.uid} on this host: gpuadmin sync-users")
    if wanted.gpus < 1 or wanted.until <= time.time():
        raise NodeError("say how many GPUs, and until when")

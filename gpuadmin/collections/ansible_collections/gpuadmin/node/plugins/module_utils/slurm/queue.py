"""The queue, as slurmctld says: jobs with their places, and nodes that take no job."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuadmin.common import waiting
from gpuadmin.common.names import LOGIN

from ..errors import NodeError
from ..run import LateError, run_command

#: Seconds for slurmctld to say that it is there. Slurm's own programs ask for nine seconds when it is not.
ALIVE = 1.8
#: Seconds for an answer of one that is there.
ANSWER = 20.0
MOST_NODES = 10_000
LONGEST = 200  # characters of a reason
MOST_HOURS = 8784  # of a job
JOB = re.compile(r"[1-9][0-9]{0,9}(?:_[0-9]{1,7})?\Z")  # its number; of an array also which one
_SECONDS = {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}
BETWEEN = "\x1f"  # two fields
_FIELDS = {
    "JobArrayID": 32, "UserName": 64, "Account": 64, "State": 24, "PriorityLong": 20, "SubmitTime": 24, "StartTime": 24,
    "EndTime": 24, "NodeList": 1024, "tres-alloc": 256, "Name": 64, "Comment": 32, "QOS": 32, "Reservation": 256,
    "WCKey": 64, "Reason": 256,
}  # fmt: skip
_NODES = list(_FIELDS).index("NodeList")  # a longer list would be cut
_STATES = "--states=PENDING,RUNNING,SUSPENDED,COMPLETING,CONFIGURING"
_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f]")
#: What jobs of ours do: nothing. Slurm says RUNNING while the prolog still opens the GPUs; the comment is of after it.
OPEN = "open"
IS_OPEN = f"scontrol update JobId=$SLURM_JOB_ID Comment={OPEN}"
JOB_DOES = f"{IS_OPEN}; exec sleep infinity"
TYPES = ("sinfo", "--noheader", "--Node", "--Format=NodeList:64\x1f,Gres:256\x1f,GresUsed:256\x1f")
NODES = ("sinfo", "--noheader", "--Node", "--format=%N|%T|%E")
_AMOUNT = re.compile(r"(?:^|,)(cpu|mem|gres/gpu)=(\d+(?:\.\d+)?)([KMGT]?)(?=,|$)")


def details(job: str) -> tuple[str, ...]:
    """What prints all of a job as JSON. In words its name, its comment and its paths, which are its person's, could be
    taken for anything else."""
    return ("scontrol", "--json", "show", "job", job)


#: Slurm's reason → which of waiting.WHY it is.
_REASONS = (
    (r"Priority", "priority"),
    (r"None|", "unread"),
    (r"Resources|Licenses", "resources"),
    (r"(QOS|Assoc)\w*(GRES|TRES|Jobs|Cpu|Node|Mem)\w*", "limit"),
    (r"(QOS|Assoc|Partition)\w*(Wall|Time)\w*", "longest"),
    (r"ReqNodeNotAvail, Reserved for maintenance", "maintenance"),
    (r"ReqNodeNotAvail, May be reserved for other job|Reservation", "booked"),
    (r"ReqNodeNotAvail.*|Nodes required for job are .*", "node"),
    (r"BeginTime", "later"),
    (r"JobHeld\w*|launch failed requeued held", "held"),
)


def code(reason: str, gpus: int = 1) -> str:
    """Which of waiting.WHY a reason of Slurm's is, of a job with so many GPUs."""
    found = next((name for pattern, name in _REASONS if re.fullmatch(pattern, reason)), waiting.OTHER)
    return "processors" if found == "resources" and not gpus else found


def ask_jobs() -> list[dict[str, Any]]:
    """All jobs, as ``jobs`` has them. Raises NodeError, also for an answer that is not understood."""
    return jobs("\n".join(table(_FIELDS)))


def table(fields: Mapping[str, int], *more: str, states: str = _STATES) -> list[str]:
    """A line for each job that runs or waits: its fields, as wide as given, with BETWEEN behind each. ``more``: options
    of squeue's. ``states``: other jobs. Raises NodeError.

    Names and comments of jobs are their people's, who can write anything into them, lines and separators of ours as
    well: what is between two fields, and after a job, is therefore another word each time.
    """
    token = secrets.token_hex(8)  # guard: nobody writes a job that is not there into the queue -> ""
    between, end = f"{BETWEEN}{token}", f"\x1e{token}"
    format = ",".join(f"{name}:{width}{between}" for name, width in fields.items())
    said = ask(("squeue", "--noheader", states, *more, f"--Format={format}{end}"))
    rows = [row.lstrip("\n") for row in said.split(end)]
    return [BETWEEN.join(map(plain, row.split(between))) for row in rows]


def accounting(fields: Sequence[str], *options: str) -> list[dict[str, str]]:
    """A row for each job or step that sacct prints with these options. Raises NodeError."""
    # guard: nobody writes a job that is not there into the accounting -> BETWEEN
    between = f"{BETWEEN}{secrets.token_hex(8)}"
    words = ("sacct", "--noheader", "--parsable", f"--delimiter={between}", f"--format={','.join(fields)}")
    cells = [cell.strip() for cell in ask((*words, *options)).split(between)]
    if len(cells) % len(fields) != 1:  # guard: an answer that is not understood is not shown
        raise NodeError("sacct's answer is not understood")
    return [dict(zip(fields, cells[at : at + len(fields)])) for at in range(0, len(cells) - 1, len(fields))]


def plain(text: str) -> str:
    """Without what a terminal obeys."""
    return _ODD.sub("?", text)


def jobs(text: str) -> list[dict[str, Any]]:
    """A row for each job: running ones first, then those that wait, in the order in which they come; ``place`` counts
    them from 1, and ``expected`` is before when Slurm does not expect them to begin. Times are seconds since 1970, or
    None.
    """
    found: list[dict[str, Any]] = []
    for line in text.split("\n"):
        if not line.strip():
            continue
        raw = line.split(BETWEEN)
        parts = [part.strip() for part in raw]
        # guard: a job that is not understood is not left out
        if len(parts) != len(_FIELDS) + 1 or not raw[_NODES].endswith(" "):
            raise NodeError("squeue's answer is not understood")
        *rest, reason = parts[: len(_FIELDS)]
        id, user, group, state, priority, asked, start, end, nodes, tres, name, comment, qos, booking, project = rest
        booking = "" if booking == "(null)" else booking
        # Slurm's own choice, where nobody has named one, has a star
        project = project if re.fullmatch(LOGIN, project) else ""
        waits = state in ("PENDING", "CONFIGURING")
        found.append(
            {
                "id": id, "user": user, "group": group, "waits": waits, "priority": number(priority) or 0,
                "asked": number(asked), "start": number(start), "end": number(end), "nodes": names(nodes),
                "gpus": gpus_in(tres), "name": name[:64], "comment": comment, "qos": qos, "booking": booking,
                "project": project, "reason": reason[:LONGEST], "place": 0,
                "expected": number(start) if waits else None,
                **({"start": None, "end": None, "nodes": ""} if waits else {"reason": ""}),
            }
        )  # fmt: skip
    found.sort(key=lambda one: (one["waits"], -one["priority"], one["asked"] or 0, first_number(one["id"])))
    for place, one in enumerate((one for one in found if one["waits"]), start=1):
        one["place"] = place
    return found


def gpus_in(tres: str) -> int:
    """How many GPUs a list of Slurm's has: of `cpu=4,gres/gpu=2` it is 2."""
    return int(amounts(tres).get("gres/gpu", 0))


def amounts(text: str) -> dict[str, float]:
    """`cpu=4,gres/gpu=2,mem=8G`: what each is, memory in bytes."""
    return {name: float(number) * 1024 ** " KMGT".index(unit or " ") for name, number, unit in _AMOUNT.findall(text)}


def on(found: Sequence[Mapping[str, Any]], node: str) -> list[str]:
    """Whose jobs are on a node, in words."""
    return [f"{one['user']} (job {one['id']})" for one in found if node in one["nodes"].split(",")]


def nodes(text: str) -> list[dict[str, str]]:
    """Each node with its state, and why it takes no job. One that does not answer gets none, minutes before Slurm calls
    it down (``*`` at its state)."""
    rows = [line.split("|", 2) for line in dict.fromkeys(text.splitlines())]  # one for each partition
    return [
        {
            "name": row[0],
            "state": row[1].rstrip("*~#!%$@+^-"),
            "reason": row[2][:LONGEST] if row[2] != "none" else waiting.SILENT if "*" in row[1] else "",
        }
        for row in rows
        if len(row) == 3
    ]


#: What a MIG device is called: `1g.10gb`, `1c.3g.20gb`, `1g.10gb+me`, `1g.24gb-me`.
PROFILE = re.compile(r"(?:[0-9]c\.)?[0-9]g\.[0-9]{1,4}gb(?:[+-][a-z.]{1,17})*\Z")


def kinds(text: str, *, used: bool = False) -> dict[str, dict[str, int]]:
    """Node → type → how many it has, MIG devices included; those without a type are left out. Slurm writes
    ``gpu:h100:8(S:0-1)``. ``used``: how many jobs have."""
    pattern = r"(?:^|,)gpu:([a-z0-9.+-]+):(\d+)"
    return {node: {kind: int(number) for kind, number in re.findall(pattern, gres)} for node, gres in _gres(text, used)}


def types(found: Mapping[str, Mapping[str, int]]) -> dict[str, str]:
    """Node → what its whole GPUs are, of those where it is known. ``found``: what kinds returns."""
    return {node: kind for node, of in found.items() for kind in of if not PROFILE.match(kind)}


def counts(text: str, *, used: bool = False) -> dict[str, int]:
    """Node → how many GPUs it has: Slurm writes ``gpu:h100:8(S:0-1),gpu:4``. ``used``: how many jobs have, which it
    writes ``gpu:h100:3(IDX:0,2-3),gpu:(null):0(IDX:N/A)``."""
    pattern = r"(?:^|,)gpu:(?:(?:\(null\)|[^:,(]+):)?(\d+)"
    return {node: sum(map(int, re.findall(pattern, gres))) for node, gres in _gres(text, used)}


def _gres(text: str, used: bool) -> Iterator[tuple[str, str]]:
    """Node, and what it has, or what of it jobs have: what TYPES prints."""
    for line in text.splitlines():
        name, gres, in_use, *_ = [*(part.strip() for part in line.split(BETWEEN)), "", ""]
        yield name, in_use if used else gres


def closed() -> dict[str, str]:
    """The nodes that take no jobs, and why. Raises NodeError where Slurm's controller does not say."""
    alive()
    return {one["name"]: one["reason"] for one in nodes(ask(NODES)) if one["reason"]}


def without_gpus() -> list[str]:
    """The nodes that jobs run on without any GPU. Raises NodeError where Slurm's controller does not say."""
    alive()
    return [node for node, number in counts(ask(TYPES)).items() if number == 0]


def owners() -> list[str] | None:
    """Whose jobs run and wait; None where Slurm's controller does not say."""
    try:
        alive()
        return sorted({one["user"] for one in ask_jobs()})
    except NodeError:
        return None


def version(daemon: str, directory: str = "/usr/sbin") -> list[int] | None:
    """The release that a daemon on this host is of, such as [24, 11]: its patches do not matter. None: not here."""
    try:
        done = run_command((f"{directory}/{daemon}", "-V"), seconds=ALIVE)
    except (LateError, OSError):
        return None
    match = re.search(r"\b(\d+)\.(\d+)\.\d", done.stdout)
    return [int(match[1]), int(match[2])] if match else None


def names(text: str) -> str:
    """The nodes of a job, one by one: Slurm writes ``gpu[1-3,07]`` for several."""
    found: list[str] = []
    for head, ranges, tail in re.findall(r"([^,\[]*)(?:\[([^\]]*)\])?([^,\[]*)(?:,|\Z)", text):
        if not ranges:
            found += [head + tail] if head + tail else []
            continue
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            low, high = number(first), number(last or first)
            if low is None or high is None or not 0 <= high - low < MOST_NODES:
                return text  # it is not understood, so it is said as it is
            found += [f"{head}{one:0{len(first)}}{tail}" for one in range(low, high + 1)]
    return ",".join(found)


def number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def first_number(id: str) -> int:
    """What a job's id begins with: that of an array of jobs has more behind it."""
    found = re.match(r"\d+", id)
    return int(found[0]) if found else 0


class AwayError(NodeError):
    """slurmctld does not answer."""


def alive() -> None:
    """Raises AwayError where slurmctld does not answer, soon; NodeError where there is no Slurm."""
    try:
        done = run_command(("scontrol", "ping"), seconds=ALIVE, environment=_SECONDS)
    except LateError:
        raise AwayError("slurmctld does not answer") from None
    except OSError as error:
        raise NodeError(f"scontrol: {error.strerror}") from None
    if " is UP" not in done.stdout:
        raise AwayError("slurmctld does not answer")


def ask(command: Sequence[str]) -> str:
    """What one of Slurm's programs prints. Raises NodeError with what it says where it fails."""
    try:
        done = run_command(
            command,
            seconds=ANSWER,  # guard: a controller that hangs meanwhile is not waited for
            environment=_SECONDS,
        )
    except OSError as error:
        raise NodeError(f"{command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or f"{command[0]} failed").splitlines()
        raise NodeError(lines[-1].rpartition("error: ")[2][:LONGEST])
    return done.stdout

"""Why a job waits, in English and Korean: one sentence for each reason; and why a node takes no jobs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: Why a node takes no jobs whose slurmd does not answer.
SILENT = "Not responding"
#: How the reason begins of a node whose own check has found a full disk (node code, health.py). That check lets
#: it take jobs again, also where Slurm itself was quicker: it could not write a job's script.
FULL = "gpuadmin full disk:"
#: The same check's for what else passes by itself.
FOR_NOW = "gpuadmin for now:"
PASSING = (FULL, FOR_NOW, "SlurmdSpoolDir is full")
#: The same check's reason for what an admin has to mend, who ends that drain.
SICK = "gpuadmin sick:"
#: How the reason begins of a node while its burn-in runs.
BURN_IN = "gpuadmin burn-in:"
#: How the reason begins of a node that `shutdown --idle` switched off: whoever needs it may switch it on.
IDLE_OFF = re.compile(r"gpuadmin shutdown [0-9a-f]{8}: idle,")
#: Why Slurm drains a node on which a job could not get its GPUs, or did not give them back.
FAILED = ("Prolog error", "Epilog error")
#: The state of a node that registers with less than Slurm was told. Slurm also drains it, but shows this state alone.
INVALID = "inval"
#: Reasons of such a node: slurmctld's own words (node_mgr.c, gres.c; Slurm 24.11).
_LESS = re.compile(r"Low |CoreSpec differ|\S+ count reported lower than configured")
_GPU = re.compile(r"GPU ([0-9]{1,3})\b")
#: Of whoever waits for another reason than these the sentence is Slurm's own.
OTHER = "other"
#: Reason (node code, slurm/queue.py) → its sentence. `{0}` is Slurm's own word.
WHY: Mapping[str, tuple[str, str]] = {
    "priority": (
        "Others come first: they have used less of their share, or have waited longer",
        "다른 사람이 먼저입니다(사용량이 더 적거나 더 오래 기다렸습니다)",
    ),
    "resources": ("Next, as soon as enough GPUs are free", "GPU가 충분히 비면 바로 다음 차례입니다"),
    "processors": (
        "Next, as soon as enough processors and memory are free",
        "CPU와 메모리가 충분히 비면 바로 다음 차례입니다",
    ),
    "limit": ("One person may not have more at once", "한 사람이 동시에 쓸 수 있는 만큼 이미 쓰고 있습니다"),
    "longest": ("The job asks for more time than is allowed", "허용된 시간보다 길게 요청했습니다"),
    "node": (
        "A node that could run the job takes no jobs now",
        "작업을 실행할 수 있는 노드가 지금 작업을 받지 않습니다",
    ),
    "booked": (
        "A booking of the node begins before the job would end, or the node takes no jobs now: ask for less time or "
        "for another node, or wait",
        "요청한 시간이 끝나기 전에 그 노드의 예약이 시작되거나 노드가 지금 작업을 받지 않습니다. 시간을 줄이거나 다른 "
        "노드를 요청하거나 기다리세요",
    ),
    "maintenance": (
        "Maintenance of a node begins before the job would end: it waits until that is over, or ask for less time",
        "요청한 시간이 끝나기 전에 노드 점검이 시작됩니다. 점검이 끝날 때까지 기다리거나 시간을 줄여 요청하세요",
    ),
    "later": (
        "The job's start time has not come, or its node failed or it was preempted and it starts again soon",
        "노드 문제나 중단 뒤 곧 다시 시작하거나, 예정된 시각을 기다립니다",
    ),
    "held": (
        "The job was held, by its person or an admin (scontrol release)",
        "본인이나 관리자가 보류했습니다(해제: scontrol release)",
    ),
    "unread": ("Slurm has not looked at the job yet", "Slurm이 아직 이 작업을 확인하지 않았습니다"),
    OTHER: ("Slurm says: {0}", "Slurm: {0}"),
}


_ARRAY = re.compile(r"[0-9]+_\[([0-9,:.-]*)(?:%[0-9]*)?(\]?)")
_TASKS = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7})(?::([1-9][0-9]{0,6}))?)?")


def count_tasks(id: str) -> str:
    """Given a waiting job's number, return how many tasks of an array it is: `12_[0-5%2]` is `6`; of
    `12_[1,3,...]`, which Slurm cuts, `≥ 2`. A job that is none gives ``""``."""
    found = _ARRAY.fullmatch(id)
    if not found:
        return ""
    parts = found[1].split(",")
    cut = not found[2] or parts[-1] == "..."
    tasks = [_TASKS.fullmatch(part) for part in (parts[:-1] if cut else parts)]
    number = sum(len(range(int(one[1]), int(one[2] or one[1]) + 1, int(one[3] or 1))) for one in tasks if one)
    return f"≥ {number}" if cut else str(number) if number > 1 else ""


def why(code: str, reason: str, language: str) -> str:
    """The sentence for a reason of Slurm's, `reason`, that is the reason `code`."""
    english, korean = WHY[code]
    return (korean if language == "ko" else english).format(reason)


def find_sick(reason: str) -> tuple[str, list[str]]:
    """Given why a node takes no jobs, return what is broken there, and on which GPUs: `gpuadmin sick: GPU 3: Xid 48`
    gives `GPU 3: Xid 48` and `["3"]`. No number is the whole node; any other reason gives ``""``."""
    words = reason[len(SICK) :].strip() if reason.startswith(SICK) else ""
    gpus = [_GPU.match(one) for one in words.split("; ")]
    return words, [one[1] for one in gpus if one] if all(gpus) else []


def drained(state: str) -> bool:
    """Whether Slurm starts no further job on a node in this state until somebody resumes it."""
    return state.startswith(("drain", INVALID))


def misfit(reason: str, state: str = "") -> bool:
    """Whether a node takes no jobs because it has less than Slurm was told; for its reason, where no state is known."""
    return state == INVALID if state else bool(_LESS.match(reason))


def settled(node: Mapping[str, str], reason: str, *, resume: bool, keep: bool) -> bool:
    """Whether a node needs no change to take no jobs for this reason (``keep``: or for another), or (``resume``) to
    take them. One that was only away takes jobs again by itself, and a misfit none, resumed or not. What passes by
    itself does not keep a node from jobs until somebody resumes it."""
    state, silent = node["state"], node["reason"] == SILENT
    passes = silent or node["reason"].startswith(PASSING)
    closed = drained(state) or state.startswith(("down", "fail"))
    if resume:
        return not closed or silent or state == INVALID
    return closed and (node["reason"] == reason or (keep and not passes))

"""Nodes that a group comes first on, in words; and whoever has to leave one now."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from ..errors import NodeError
from ..files import read_bytes, write_atomic
from ..gpus import grants
from ..gpus.gate import Places
from ..logins import terminals
from . import partitions, queue
from .gpu_words import clock
from .partitions import Owned, look_owned
from .texts import LANGUAGES

WORDS = {
    "en": {
        "first": "{0}: {1} comes first there; others' jobs may be preempted: they get {2} min of notice, {3}.",
        "alone": "{0}: for {1} alone.",
        "again": "and wait in the queue again",
        "end": "and end",
        "leaves": "Job {0}: {1} comes first on {2} and needs it now. Your GPUs go back at {3}: save what you need.",
    },
    "ko": {
        "first": "{0}: {1} 그룹이 우선 사용하는 노드입니다. 다른 사람의 작업은 중단될 수 있습니다({2}분 전 알림, {3}).",
        "alone": "{0}: {1} 그룹만 쓰는 노드입니다.",
        "again": "중단되면 다시 대기",
        "end": "중단되면 종료",
        "leaves": "작업 {0}: {2} 노드를 우선 사용하는 {1} 그룹에서 지금 쓰려고 합니다. GPU는 {3}에 반납됩니다. "
        "필요한 것은 저장하세요.",
    },
}
#: Whom this node has told since its boot.
TOLD = "leaving.json"
_FIELDS = {"JobArrayID": 32, "Partition": 64, "PreemptTime": 24, "EndTime": 24}


def look_guests(jobs: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], int, Owned]]:
    """Of these jobs those that may be preempted, and when they have to leave; 0: nobody needs their GPUs. Raises
    NodeError."""
    found, until = look_owned(), {}
    for row in queue.table(_FIELDS, states="--states=RUNNING") if found.guests else ():
        id, partition, preempted, end, *_ = [*(cell.strip() for cell in row.split(queue.BETWEEN)), "", "", ""]
        if partition == partitions.GUEST:
            until[id] = (queue.number(end) or 0) if queue.number(preempted) else 0
    return [(one, until[one["id"]], found) for one in jobs if one["id"] in until]


def describe(found: Owned, language: str, nodes: Collection[str] | None = None) -> list[str]:
    """A line for each group that has nodes, and for what it has alone. ``nodes``: of these alone."""
    words = WORDS[language]
    of: dict[tuple[str, str], list[str]] = {}
    for node, owner in found.owners.items():
        if nodes is None or node in nodes:
            of.setdefault((owner, "first" if node in found.guests else "alone"), []).append(node)
    after = words["again" if found.again else "end"]
    return [words[kind].format(", ".join(all), one, found.notice // 60, after) for (one, kind), all in of.items()]


def describe_guests(jobs: Iterable[Mapping[str, Any]], language: str) -> list[str]:
    """What is said of these jobs if they may be preempted, or have to leave; nothing where Slurm does not say."""
    lines: list[str] = []
    with suppress(NodeError):
        for one, until, found in look_guests(jobs):
            leave = [format_leave(one, until, found, language)] if until else []
            lines += leave or describe(found, language, one["nodes"].split(","))
    return lines


def format_leave(job: Mapping[str, Any], until: float, found: Owned, language: str) -> str:
    return WORDS[language]["leaves"].format(job["id"], find_owner(found, job["nodes"]), job["nodes"], clock(until))


def find_owner(found: Owned, nodes: str) -> str:
    """The group that nodes of a job are of, or the groups."""
    return ", ".join(dict.fromkeys(found.owners[one] for one in nodes.split(",") if one in found.owners))


def tell_terminals(places: Places, devices: str = "/dev") -> list[str]:
    """Tell whoever has to leave this node on their terminals, once. Returns whom; nobody where Slurm does not say."""
    held = {one.id: one.uid for one in grants.read(places.state, places.run)[0] if one.source == grants.SOURCE}
    path, done = os.path.join(places.run, TOLD), []
    try:
        leaving = [one for one in look_guests(queue.ask_jobs()) if one[1]] if held else []
        told = set(json.loads(read_bytes(path) or b"[]")) if leaving else set()
    except (NodeError, ValueError):
        return []
    for job, until, found in leaving:
        grant = f"{grants.SOURCE}-{job['id']}"
        if grant in held and grant not in told:  # guard: who has to leave a node is told once on their terminals
            text = "\n".join(format_leave(job, until, found, language) for language in LANGUAGES)
            done += [f"{job['user']}: has to leave"] if terminals.tell(text, devices, held[grant]) else []
            told.add(grant)
            write_atomic(path, json.dumps(sorted(told)).encode(), mode=0o600, sync=False)
    return done

"""The commands `gpuadmin-me free` and `top`: which GPUs of all nodes are free, and who has the others.

They read what the monitor host tells this node once a minute (cluster_view.py), and say how old it is.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping

from gpuadmin.common.records.cluster import ClusterNow, GpuNow, NodeNow
from gpuadmin.common.text import size_words

from ..cluster_view import FILE, load
from ..errors import NodeError, in_words
from ..fields import CONTROL
from ..slurm.gpu_words import clock

OLD = 180.0  # seconds: it comes once a minute
TEXTS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "none": "The monitor host has told this node nothing yet: wait a minute. If nothing comes, ask your admins.",
        "unread": "What the monitor host told this node cannot be read ({0}): tell your admins.",
        "when": "As of {0}.", "old": "As of {0}, {1} min ago: the monitor host has told nothing since.",
        "totals": "{0} of {1} GPUs are free.", "type": "  {0}: {1} of {2} free{3}", "on": "{0}: {1}",
        "down": "is off, or cannot be reached", "silent": "nothing is known of it now", "no-gpus": "no GPUs",
        "no-answer": "nothing is known of its GPUs",
        "free": "free", "lost": "does not answer", "unknown": "nobody knows who has it", "until": "{0} until {1}",
        "use": "{0:.0%} busy", "no-use": "use not known", "of": "{0} of {1}",
    },
    "ko": {
        "none": "아직 모니터 서버에서 받은 정보가 없습니다. 1분 뒤에 다시 실행하고, 계속되면 관리자에게 문의하세요.",
        "unread": "모니터 서버에서 받은 정보를 읽을 수 없습니다({0}). 관리자에게 알려 주세요.",
        "when": "{0} 기준입니다.", "old": "{0} 기준입니다({1}분 전). 그 뒤로 모니터 서버에서 받은 정보가 없습니다.",
        "totals": "GPU {1}개 중 {0}개가 비어 있습니다.", "type": "  {0}: {2}개 중 {1}개 비어 있음{3}",
        "on": "{0} {1}번", "down": "꺼져 있거나 연결되지 않습니다", "silent": "지금은 상태를 알 수 없습니다",
        "no-gpus": "GPU 없음", "no-answer": "GPU 상태를 알 수 없음",
        "free": "비어 있음", "lost": "응답하지 않음", "unknown": "누가 쓰는지 알 수 없음", "until": "{0}({1}까지)",
        "use": "사용률 {0:.0%}", "no-use": "사용률 알 수 없음", "of": "{1} 중 {0}",
    },
}  # fmt: skip


def run(asked: str, language: str, path: str = FILE) -> tuple[int, list[str]]:
    """Given `free` or `top` and a language, return the exit status and the lines to print."""
    words = TEXTS[language]
    try:
        found = load(path)
    except (NodeError, OSError) as error:
        return 1, [words["unread"].format(in_words(error))]
    if found is None:
        return 1, [words["none"]]
    body = free_lines(found, words) if asked == "free" else top_lines(found, words)
    return 0, [CONTROL.sub("?", line) for line in (*body, age_line(found.when, time.time(), words))]


def age_line(when: float, now: float, words: Mapping[str, str]) -> str:
    """`As of 14:02.`; and how long ago, where that is longer than it should be."""
    # guard: what is old says so -> words["when"].format(clock(when, now))
    return words["old" if now - when > OLD else "when"].format(clock(when, now), int(max(now - when, 0) // 60))


def free_lines(found: ClusterNow, words: Mapping[str, str]) -> Iterator[str]:
    """How many GPUs are free; of each type where, by their numbers; and nodes of which nothing is known."""
    kinds: dict[str, dict[str, list[GpuNow]]] = defaultdict(lambda: defaultdict(list))
    for node in found.nodes:
        for gpu in node.gpus:
            kinds[gpu.name][node.name].append(gpu)
    gpus = [gpu for node in found.nodes for gpu in node.gpus]
    yield words["totals"].format(sum(gpu.state == "free" for gpu in gpus), len(gpus))
    for kind, places in sorted(kinds.items()):
        # guard: only what is known to be free is said to be -> places
        free = {name: some for name, all in places.items() if (some := [gpu for gpu in all if gpu.state == "free"])}
        where = [words["on"].format(name, " ".join(gpu.index for gpu in some)) for name, some in free.items()]
        numbers = (sum(map(len, every.values())) for every in (free, places))
        if kind:  # of one that does not answer nobody knows it
            yield words["type"].format(kind, *numbers, f" ({', '.join(where)})" if where else "")
    yield from (f"  {node.name}: {state}" for node in found.nodes if (state := _state(node, words)) and not node.gpus)


def _state(node: NodeNow, words: Mapping[str, str]) -> str:
    """What is odd about a node, in words; nothing of one that is as it should be."""
    if node.state != "up":
        return words["down" if node.state == "down" else "silent"]
    return "" if node.known else words["no-answer"]


def top_lines(found: ClusterNow, words: Mapping[str, str]) -> Iterator[str]:
    """All nodes, and below each its GPUs: use, memory, and who has them until when."""
    for node in found.nodes:
        odd = _state(node, words) or ("" if node.gpus else words["no-gpus"])
        yield f"{node.name}: {odd}" if odd else node.name
        width = max((len(gpu.name) for gpu in node.gpus), default=0)
        for gpu in node.gpus:
            if gpu.state == "lost":
                yield f"  {gpu.index:>4}  {words['lost']}"
                continue
            use = words["no-use"] if gpu.use is None else words["use"].format(gpu.use)
            sizes = [None if one is None else size_words(one) for one in (gpu.memory_used, gpu.memory)]
            memory = "?" if None in sizes else words["of"].format(*sizes)
            who = [
                one.name if one.until is None else words["until"].format(one.name, clock(one.until, found.when))
                for one in gpu.people
            ]
            free = words["free" if gpu.state == "free" else "unknown"]
            yield f"  {gpu.index:>4}  {gpu.name:<{width}}  {use}, {memory}  {', '.join(who) or free}"

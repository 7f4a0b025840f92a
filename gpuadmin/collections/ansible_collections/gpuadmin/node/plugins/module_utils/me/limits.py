"""The command `gpuadmin-me limits`: what a person uses of what they may, on this node and in their home.

The kernel counts all that runs in their name here, containers too. What is not known is said.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from ..bounded import read_small
from ..diagnosis.sessions import CGROUP, count_slice
from ..diagnosis.subject import Subject
from . import hints, overview

#: In what each is counted, and with how many decimals what is used is shown.
UNITS = {"processors": (1, 1), "memory": (1 << 30, 1), "tasks": (1, 0)}
TEXTS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "processors": "processors: {0} of {1}", "memory": "memory (GiB): {0} of {1}", "tasks": "processes: {0} of {1}",
        "home": "home: {0}", "docker": "Docker: {0}", "scratch": "scratch: {0}",
        "unknown": "not known", "endless": "any number",
        "node": " (the whole node: you have no limit)",
    },
    "ko": {
        "processors": "CPU(개): {1} 중 {0}", "memory": "메모리(GiB): {1} 중 {0}", "tasks": "프로세스(개): {1} 중 {0}",
        "home": "홈: {0}", "docker": "Docker: {0}", "scratch": "임시 공간: {0}",
        "unknown": "알 수 없음", "endless": "무제한",
        "node": "(노드 전체, 개인 한도 없음)",
    },
}  # fmt: skip


def limits(subject: Subject, seconds: float = 1.0) -> dict[str, Any]:
    """The facts by part, or why it is not known."""
    disks = {"home": overview.home, "docker": overview.docker, "scratch": overview.scratch}
    parts = {**disks, "slice": partial(look_at_slice, seconds=seconds)}
    return overview.look_at_parts(subject, parts)


def look_at_slice(subject: Subject, seconds: float) -> dict[str, tuple[float | None, float | None, float | None]]:
    """For each of UNITS: what the person uses, what they may have (inf: there is no limit of theirs), and what people
    have of the node. None: not known."""
    before, began = hints.count_processor_seconds(subject), time.monotonic()
    time.sleep(seconds)  # what is used is a difference over that time
    after, took = hints.count_processor_seconds(subject), time.monotonic() - began
    counts = count_slice(subject.uid or 0, subject.path(CGROUP))
    processors, memory, tasks, together = (
        _read_most(subject, f"user.slice/{name}")
        for name in (*(f"user-{subject.uid}.slice/{one}.max" for one in ("cpu", "memory", "pids")), "memory.max")
    )
    whole = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    used = None if before is None or after is None else (after - before) / took
    return {
        "processors": (used, processors, os.cpu_count()),
        "memory": (counts.get("memory"), memory, min(whole, together or whole)),
        "tasks": (counts.get("tasks"), tasks, None),
    }


def _read_most(subject: Subject, name: str) -> float | None:
    """A limit of the kernel's: `max`, a number, or for processors a quota and a period; None: it has none to say."""
    try:
        words = read_small(subject.path(f"{CGROUP}/{name}")).decode("ascii", "replace").split()
    except OSError:
        return None  # this kernel does not count it, or nobody has asked it to
    if words[:1] == ["max"]:
        return math.inf
    numbers = [int(one) for one in words if one.isdecimal()]
    return numbers[0] / (numbers[1:] or [1])[0] if words and len(numbers) == len(words) else None


def lines(subject: Subject, found: Mapping[str, Any], host: str, language: str) -> Iterator[str]:
    """The lines to print: `processors: 16.0 of 64`, `memory (GiB): 40.0 of 96`, `home: … 412.0 GB of 500.0 GB …`."""
    words, korean = TEXTS[language], language == "ko"
    yield f"{subject.name}@{host}"
    counted = found["slice"] if isinstance(found["slice"], Mapping) else {}
    for part, (unit, decimals) in UNITS.items():
        used, own, whole = counted.get(part, (None, None, None))
        most = whole if own == math.inf else own
        has = words["unknown"] if used is None else f"{used / unit:.{decimals}f}"
        may = words["unknown"] if most is None else f"{most / unit:.1f}".removesuffix(".0")
        if own == math.inf:  # guard: what is not known is not without a limit -> own in (None, math.inf)
            may = words["endless"] if whole is None else may + words["node"]
        yield "  " + words[part].format(has, may)
    yield "  " + words["home"].format(overview.describe_home(found["home"], korean))
    for part in ("docker", "scratch"):
        if found[part] is not None:
            yield "  " + words[part].format(overview.describe_docker(found[part], korean))

"""What the collector has written on this host just now, for commands that ask the host itself: top --local,
gpuadmin-me."""

from __future__ import annotations

import os
from typing import Any

from ..bounded import read_small
from ..errors import NodeError
from .running import MAPPER, SAMPLER

MOST = 4 * 1024 * 1024  # bytes of a file; 64 GPUs and a thousand people are a quarter of that
_HOST = {"MemTotal": "node_memory_MemTotal_bytes", "MemAvailable": "node_memory_MemAvailable_bytes"}


def measured(directories: tuple[str, ...] = (SAMPLER, MAPPER), proc: str = "/proc") -> str:
    """Samples as text: the collector's, whole lines of them, and what the host has of memory and load.

    Raises NodeError if the collector has written nothing, and OSError.
    """
    texts, missing = [], None
    for directory in directories:
        there = os.path.isdir(directory)
        names = sorted(name for name in os.listdir(directory) if name.endswith(".prom")) if there else []
        for name in names:
            raw = read_small(os.path.join(directory, name), most=MOST)
            texts.append(raw[: raw.rfind(b"\n") + 1].decode("utf-8", "replace"))
        missing = missing if names else directory
    if not texts:
        raise NodeError(
            f"the collector has written nothing in {missing}: where a host is in the group monitor, gpuadmin provision "
            "sets it up; then systemctl status gpuadmin-metrics-sampler gpuadmin-metrics-mapper"
        )
    return "".join([*texts, *_host(proc)])


def _host(proc: str) -> list[str]:
    """As the node exporter says it, where it says it."""
    lines = []
    with open(os.path.join(proc, "loadavg"), encoding="ascii") as stream:
        lines.append(f"node_load1 {float(stream.read().split()[0])}\n")
    with open(os.path.join(proc, "meminfo"), encoding="ascii") as stream:
        for name, _, rest in (line.partition(":") for line in stream):
            if name in _HOST:
                lines.append(f"{_HOST[name]} {int(rest.split()[0]) * 1024}\n")
    return lines


def report() -> dict[str, Any]:
    """As a module answers."""
    return {"measured": {"text": measured()}}

"""What each person uses of a node, as the kernel counts it for their slice (cgroup v2), containers included."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from ..diagnosis.sessions import count_slice
from .exposition import Samples

CGROUPS = "/sys/fs/cgroup"
MOST = 4096  # people
_NAME = re.compile(r"user-(\d{1,10})\.slice")
_BYTES = re.compile(r"\b(rbytes|wbytes)=(\d+)")


def put(samples: Samples, name: Callable[[int], str | None], cgroups: str = CGROUPS) -> None:
    """Add what everybody uses who has something running here. Raises OSError if this host counts nothing so."""
    directory = f"{cgroups}/user.slice"
    for entry in os.listdir(directory)[:MOST]:
        match = _NAME.fullmatch(entry)
        user = name(int(match.group(1))) if match else None
        if match is not None and user is not None:
            _put(samples, user, f"{directory}/{entry}", count_slice(int(match.group(1)), cgroups))


def _put(samples: Samples, user: str, directory: str, counted: dict[str, int]) -> None:
    used = re.search(r"(?m)^usage_usec (\d+)$", _read(f"{directory}/cpu.stat"))
    samples.put("gpuadmin_user_cpu_seconds_total", int(used.group(1)) / 1e6 if used else None, user=user)
    samples.put("gpuadmin_user_memory_bytes", counted.get("memory"), user=user)
    samples.put("gpuadmin_user_oom_kills_total", counted.get("memory_oom_kill"), user=user)
    samples.put("gpuadmin_user_tasks", counted.get("tasks"), user=user)
    text = _read(f"{directory}/io.stat")
    if text:
        totals = {"rbytes": 0, "wbytes": 0}
        for key, number in _BYTES.findall(text):
            totals[key] += int(number)
        samples.put("gpuadmin_user_io_read_bytes_total", totals["rbytes"], user=user)
        samples.put("gpuadmin_user_io_written_bytes_total", totals["wbytes"], user=user)


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read(65536)
    except OSError:
        return ""  # this kernel, or this slice, does not count it

"""GPUs of light hosts, to try and to test with: they can be opened, read and held, and compute nothing.

Each is the device file of a processor's identification (cpu/cpuid), which a light host has no other use of. A null
device would do for opening, but is open to everybody; a number without a driver cannot be held.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gpuadmin.errors import ConfigError, GpuadminError
from gpuadmin.lab.programs import search_path

GROUP = "cpu/cpuid"  # as /proc/devices has it
DEVICES = Path("/proc/devices")


def require(count: int) -> None:
    """Raise ConfigError if this machine has fewer processors, GpuadminError if its kernel has no such devices."""
    processors = os.cpu_count() or 1
    if count > processors:
        raise ConfigError(
            f"light hosts have at most as many GPUs as this machine has processors: {processors}, not {count}"
        )
    if count and not _count_there():
        with suppress(FileNotFoundError):
            subprocess.run(("modprobe", "cpuid"), check=False, capture_output=True, env={"PATH": search_path()})
        if not _count_there():
            raise GpuadminError(
                "this machine's kernel has no cpu/cpuid, which light hosts' GPUs are made of: `modprobe cpuid` failed",
                hint="leave --gpus out",
            )


def variables(count: int) -> Mapping[str, object]:
    """What the inventory says of a node with so many, where no driver names their files."""
    if not count:
        return {}
    return {
        "gpu_stack_groups": ["nvidia", "drm", GROUP],
        "gpu_stack_devices": {str(number): [f"/dev/nvidia{number}"] for number in range(count)},
    }


def _count_there() -> bool:
    return any(line.split()[1:] == [GROUP] for line in DEVICES.read_text().splitlines())

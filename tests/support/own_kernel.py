"""A Linux kernel of its own for what this machine's cannot do: User Mode Linux, an ordinary program, up in a second."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

MODULES = Path("/usr/lib/uml/modules")
ROOT = Path(__file__).resolve().parents[2]
COLLECTIONS = ROOT / "gpuadmin/collections"
_DISKS = "ubd{}={}"

_INIT = """#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
{modules}
cd /run
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={root}:{collections} {python} {program}
echo "ended: $?"
echo o >/proc/sysrq-trigger
while :; do sleep 1; done  # until the power is off
"""


def run_in_own_kernel(program: Path, scratch: Path, modules: tuple[str, ...], disks: Mapping[str, Path]) -> list[str]:
    """Run a Python program as root of a kernel of its own, and return the lines that it printed with `: ` before them.

    It sees this machine's files, read-only, and tmpfs in /run. ``modules``: files below the kernel's. ``disks``: by
    letters, `a` is /dev/ubda. Raises RuntimeError where the program failed; skips the test where no program can run.
    """
    kernel = next(MODULES.glob("*/kernel"))
    init = scratch / "init.sh"
    init.write_text(
        _INIT.format(
            modules="\n".join(f"insmod {kernel / one}" for one in modules),
            root=ROOT,
            collections=COLLECTIONS,
            python=sys.executable,
            program=program,
        )
    )
    init.chmod(0o755)
    found = subprocess.run(
        [
            "linux.uml",
            "root=/dev/root",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            "mem=256M",
            f"init={init}",
            "con=null",
            "con0=fd:0,fd:1",
            *(_DISKS.format("abcdefgh".index(letter), path) for letter, path in disks.items()),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    lines = found.stdout.splitlines()
    if any("ptrace set fp regs failed, errno = 14" in line for line in lines):
        # before Linux 6.13 it has no room for the registers of AMX, and the kernel sets all or none
        pytest.skip("User Mode Linux cannot set the registers of this processor")
    if "ended: 0" not in (line.strip() for line in lines):
        raise RuntimeError(found.stdout[-4000:])
    return [line.strip()[2:] for line in lines if line.startswith(": ")]

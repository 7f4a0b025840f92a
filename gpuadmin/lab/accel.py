"""Chooses between KVM and software emulation, by trying.

A /dev/kvm that opens proves nothing: nested virtualisation may accept a guest, run its firmware and a boot
sector, and then never get through the kernel's start. So the trial boots the guest's own kernel, without a
root: it panics at once, and with `panic=-1` that ends QEMU.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Literal

from gpuadmin.errors import GpuadminError
from gpuadmin.lab.commands import Command
from gpuadmin.lab.paths import cache_directory
from gpuadmin.lab.programs import search_path

Accel = Literal["kvm", "tcg"]
ACCELS: dict[str, Accel] = {"kvm": "kvm", "tcg": "tcg"}

#: Seconds. Under working KVM the trial takes about one; loaded machines and nested KVM get some more.
TRIAL_LIMIT = 15.0


def accel_arguments(accel: Accel) -> Command:
    """Return QEMU's arguments for an accelerator, with the processors that a guest gets.

    Software emulation without cx16: QEMU 7.2 corrupts the flags at cmpxchg16b, and a 6.12 kernel then dies at a random
    place in most boots. Without erms: it makes kernel and libc clear and copy by `rep movsb`, which is emulated byte by
    byte. Without la57, smap and smep: a page table level less to walk at each miss, and user memory that the kernel
    touches without switching a protection off and on. With one processor: two wait for one another at every fork, and
    several guests share the machine's anyway. Of guests that fork and exec, a busy machine had 4.6 s left of 15.6.
    """
    if accel == "kvm":
        return ("-accel", "kvm", "-cpu", "host", "-smp", "2")
    return ("-accel", "tcg", "-cpu", "max,-cx16,-erms,-la57,-smap,-smep", "-smp", "1")


def choose(kernel: Path) -> Accel:
    """Given a guest kernel, return what its guests run with: GPUADMIN_LAB_ACCEL, else what a trial says.

    The trial's answer is remembered until the machine is booted again.
    """
    override = os.environ.get("GPUADMIN_LAB_ACCEL", "")
    if override in ACCELS:
        return ACCELS[override]
    if override:
        raise GpuadminError(f"GPUADMIN_LAB_ACCEL is {override!r}", hint="use kvm or tcg")
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    remembered = cache_directory() / "accel"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    if remembered.is_file():
        parts = remembered.read_text().split()
        if len(parts) == 2 and parts[0] == boot and parts[1] in ACCELS:
            return ACCELS[parts[1]]
    answer: Accel = "kvm" if kvm_runs(kernel) else "tcg"
    remembered.parent.mkdir(parents=True, exist_ok=True)
    remembered.write_text(f"{boot} {answer}\n")
    return answer


def explain_choice(accel: Accel) -> str:
    """Return one line that says what guests run with, and why."""
    if os.environ.get("GPUADMIN_LAB_ACCEL"):
        return f"Guests run with {accel}, as GPUADMIN_LAB_ACCEL says."
    if accel == "kvm":
        return "Guests run with KVM."
    if not Path("/dev/kvm").exists():
        return "Guests run under software emulation, which is slow: this machine has no /dev/kvm."
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "Guests run under software emulation, which is slow: you may not open /dev/kvm (group kvm?)."
    return "Guests run under software emulation, which is slow: a trial guest did not start under KVM."


def trial_command(kernel: Path) -> Command:
    """Given a guest kernel, return the QEMU command that ends by itself soon if KVM runs it."""
    return (
        "qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot", "-m", "256",
        *accel_arguments("kvm"), "-kernel", str(kernel), "-append", "panic=-1 console=ttyS0", "-serial", "stdio",
    )  # fmt: skip


def kvm_runs(kernel: Path, limit: float = TRIAL_LIMIT) -> bool:
    """Boot a kernel under KVM and tell whether it reached the point where it looks for a root."""
    try:
        done = subprocess.run(
            trial_command(kernel), env={**os.environ, "PATH": search_path()}, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=limit, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and b"Unable to mount root fs" in done.stdout

"""The builder VM: it makes the file systems of a disk, which on the controller would need root."""

from __future__ import annotations

from pathlib import Path

from gpuadmin.errors import GpuadminError
from gpuadmin.lab import disk
from gpuadmin.lab.accel import Accel, accel_arguments
from gpuadmin.lab.commands import Command, run, tail
from gpuadmin.lab.paths import guest_directory

#: Seconds; software emulation on a loaded machine takes about 100.
LIMIT = 1800.0
#: Spares an emulator time: nothing moves at a start, and guests have no secrets. Theirs are in guest/*/grub.cfg.
QUICK = "norandmaps mitigations=off init_on_alloc=0"


def builder_command(accel: Accel, root: Path, initrd: Path, target: Path, console: Path) -> Command:
    """Return the QEMU command that runs guest/build.sh on a raw disk.

    `root` is the directory of mmdebstrap's results. The disk needs no safety: a build that is cut is thrown away.
    """
    return (
        "qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot", "-m", "1024",
        *accel_arguments(accel),
        "-kernel", str(root / "vmlinuz"), "-initrd", str(initrd),
        "-append", f"rdinit=/gpuadmin/build {QUICK} console=ttyS0 loglevel=4 panic=-1",
        "-serial", f"file:{console}",
        "-drive", f"if=virtio,format=raw,cache=unsafe,discard=unmap,detect-zeroes=unmap,file={target}",
        "-drive", f"if=virtio,format=raw,readonly=on,file={root / 'root.tar'}",
    )  # fmt: skip


def builder_initrd(root: Path, layout: disk.Layout) -> bytes:
    """Return the builder's initramfs: our script and the boot files, and after them what mmdebstrap made.

    In this order, because the kernel wants a plain archive on a multiple of 4 bytes and a compressed one anywhere.
    """
    scripts = guest_directory()
    files = {
        "gpuadmin/build": ((scripts / "build.sh").read_bytes(), 0o755),
        "gpuadmin/layout": (layout.name.encode() + b"\n", 0o644),
        "gpuadmin/fstab": ((scripts / layout.name / "fstab").read_bytes(), 0o644),
        "gpuadmin/grub.cfg": ((scripts / layout.grub_cfg / "grub.cfg").read_bytes(), 0o644),
        "gpuadmin/grubenv": (disk.grub_environment(current="base"), 0o644),
    }
    if layout.firmware == "uefi":
        files["gpuadmin/partitions"] = (disk.partition_script(layout).encode(), 0o644)
        files["gpuadmin/bootx64.efi"] = ((root / "bootx64.efi").read_bytes(), 0o644)
    return disk.cpio(files) + (root / "initrd").read_bytes()


def build(accel: Accel, root: Path, layout: disk.Layout, directory: Path) -> Path:
    """Make a disk in an empty directory and return it as qcow2. Raises with the end of its console."""
    raw, initrd, console, result = (directory / name for name in ("disk.raw", "initrd", "console.log", "disk.qcow2"))
    if layout.firmware == "uefi":
        disk.write_blank_disk(raw, layout)  # the builder divides it, with the guest's own sfdisk
    else:
        core = root / f"core-{layout.name}.img"
        disk.write_empty_disk(raw, layout, (root / "boot.img").read_bytes(), core.read_bytes())
    initrd.write_bytes(builder_initrd(root, layout))
    run(builder_command(accel, root, initrd, raw, console), timeout=LIMIT)
    if "gpuadmin-build: done" not in tail(console, 20):
        raise GpuadminError(f"the builder VM did not make the disk; its console ends with:\n{tail(console)}")
    # Not compressed: guests would pay for it at every first read.
    run(("qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(result)))
    return result

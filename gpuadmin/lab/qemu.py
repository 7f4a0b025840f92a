"""QEMU processes: the command line of a host, starting one, finding it again, killing it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from gpuadmin.errors import GpuadminError
from gpuadmin.lab import firmware
from gpuadmin.lab.accel import Accel, accel_arguments
from gpuadmin.lab.commands import Command, run, tail
from gpuadmin.lab.network import MULTICAST_GROUP
from gpuadmin.lab.qmp import Qmp
from gpuadmin.lab.state import Host, Lab

#: Size of the storage host's second disk; sparse.
DATA_DISK_SIZE = "8G"


def process_name(lab: Lab, host: Host) -> str:
    """Return the name of a host's process, as it is in its command line."""
    return f"gpuadmin-lab-{lab.name}-{host.name}"


def qemu_command(lab: Lab, host: Host, accel: Accel, *, load: str | None = None, paused: bool = False) -> Command:
    """Return the command that starts a host in the background, to be run in its directory.

    `load` names a snapshot to start from; `paused` leaves its CPUs stopped. Sockets have relative paths: an
    absolute one might exceed the 107 bytes of a Unix socket's path. Disks honour the guest's flushes, so killing
    the process loses what a power cut would lose.
    """
    directory = lab.host_directory(host)
    multicast = f"{MULTICAST_GROUP}:{lab.cluster_port}"
    command: Command = (
        "qemu-system-x86_64", "-name", f"{process_name(lab, host)},process={process_name(lab, host)}",
        "-nodefaults", "-no-user-config", "-display", "none", "-machine", "pc",
        *accel_arguments(accel), "-m", str(lab.memory_mib),
        "-drive", f"if=none,id=root,format=qcow2,cache=writeback,discard=unmap,file={directory / 'root.qcow2'}",
        "-device", "virtio-blk-pci,drive=root,bootindex=1",
    )  # fmt: skip
    if lab.layout(host.kind).firmware == "uefi":
        command += ("-bios", str(firmware.ovmf()))
    if host.kind == "storage":
        command += (
            "-drive", f"if=none,id=data,format=qcow2,cache=writeback,discard=unmap,file={directory / 'data.qcow2'}",
            "-device", "virtio-blk-pci,drive=data,serial=gpuadmin-data",
        )  # fmt: skip
    command += (
        "-netdev", f"user,id=uplink,ipv6=off,hostfwd=tcp:127.0.0.1:{host.ssh_port}-:22",
        "-device", f"virtio-net-pci,netdev=uplink,mac={host.uplink_mac},romfile=",
        "-netdev", f"socket,id=cluster,mcast={multicast},localaddr=127.0.0.1",
        "-device", f"virtio-net-pci,netdev=cluster,mac={host.cluster_mac},romfile=",
        "-device", "virtio-rng-pci",
        "-fw_cfg", f"name=opt/gpuadmin/seed,file={directory / 'seed.tar'}",
        "-chardev", f"file,id=console,path={directory / 'console.log'},append=on", "-serial", "chardev:console",
        "-chardev", "socket,id=clock,path=clock.sock,server=on,wait=off", "-serial", "chardev:clock",
        "-qmp", "unix:qmp.sock,server=on,wait=off",
        "-pidfile", str(directory / "qemu.pid"), "-daemonize",
    )  # fmt: skip
    if load:
        command += ("-loadvm", load)
    return (*command, "-S") if paused else command


def start(lab: Lab, host: Host, accel: Accel, *, load: str | None = None, paused: bool = False) -> None:
    """Start a host that is not running. Returns when QEMU has taken its resources, not when the guest is up."""
    directory = lab.host_directory(host)
    for leftover in ("qmp.sock", "clock.sock", "qemu.pid"):
        (directory / leftover).unlink(missing_ok=True)
    command = qemu_command(lab, host, accel, load=load, paused=paused)
    run(command, log=directory / "qemu.log", cwd=directory, timeout=120)


def running_pid(lab: Lab, host: Host) -> int | None:
    """Return the process id of a host's QEMU if it runs; a pid file of another process does not count."""
    try:
        pid = int((lab.host_directory(host) / "qemu.pid").read_text())
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    # The whole path of the state directory: two users, or two state directories, may have labs of one name.
    mine = str(lab.host_directory(host) / "qemu.pid").encode()
    return pid if mine in arguments else None


def kill(lab: Lab, host: Host, *, how: signal.Signals = signal.SIGKILL, limit: float = 30.0) -> bool:
    """End a host's QEMU at once, as a power cut would. Returns False if it was not running."""
    pid = running_pid(lab, host) or _stray_pid(lab, host)
    if pid is None:
        return False
    os.kill(pid, how)
    deadline = time.monotonic() + limit
    while Path(f"/proc/{pid}").exists() and not _is_zombie(pid):
        if time.monotonic() > deadline:
            raise GpuadminError(f"process {pid} of {host.name} does not end", hint=f"kill -9 {pid}")
        time.sleep(0.02)  # no child of this process: nothing tells of its end
    return True


def _stray_pid(lab: Lab, host: Host) -> int | None:
    """Return the process id of a host's QEMU that was interrupted before it wrote its pid file."""
    mine = str(lab.host_directory(host) / "qemu.pid").encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if arguments[0].endswith(b"qemu-system-x86_64") and mine in arguments:
            return int(path.parent.name)
    return None


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (OSError, IndexError):
        return True


def power_off(lab: Lab, host: Host) -> None:
    """Press a guest's power button; a QEMU that does not answer is left as it is."""
    try:
        with Qmp(lab.host_directory(host), limit=5) as monitor:
            monitor.command("cont")
            monitor.command("system_powerdown")
    except GpuadminError:
        return


def last_output(lab: Lab, host: Host) -> str:
    """Return the end of a host's console, and of what QEMU itself printed."""
    directory = lab.host_directory(host)
    return f"{tail(directory / 'qemu.log', 5)}\n{tail(directory / 'console.log')}".strip()

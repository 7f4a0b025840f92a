"""Light hosts as the lab handles its hosts: starting one, finding it again, ending it, the end of its output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from gpuadmin.errors import GpuadminError
from gpuadmin.lab.commands import tail
from gpuadmin.lab.light import disk
from gpuadmin.lab.light import host as launcher
from gpuadmin.lab.state import Host, Lab

#: How many inotify instances one user may have: Debian's 128 are enough for six hosts, each with its systemd.
INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")


def running_pid(lab: Lab, host: Host) -> int | None:
    """Return the process id of a host's launcher if it runs; a pid file of another process does not count."""
    try:
        pid = int((lab.host_directory(host) / "light.pid").read_text())
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    mine = [lab.name.encode(), host.name.encode()]
    return pid if b"gpuadmin.lab.light.host" in arguments and arguments[-3:-1] == mine else None


def allow_instances(hosts: int) -> str:
    """Let so many hosts watch files at once: all of them count as root's. Returns what was changed, in words."""
    before, needed = int(INSTANCES.read_text()), max(1024, 32 * hosts)
    if before >= needed:
        return ""
    INSTANCES.write_text(f"{needed}\n")
    return f"until it boots again this machine allows {needed} inotify instances ({before} before): systemd needs them"


def start(lab: Lab, host: Host) -> None:
    """Start a host that is not running. Returns when its systemd has begun, not when it is up."""
    disk.require_light()
    directory = lab.host_directory(host)
    (directory / "light.pid").unlink(missing_ok=True)
    with (directory / "light.log").open("wb") as log:
        process = subprocess.Popen(
            (sys.executable, "-P", "-m", "gpuadmin.lab.light.host", lab.name, host.name),
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + 90
    while not (directory / "light.pid").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            launcher.end(lab, host)
            raise GpuadminError(f"{host.name} did not start:\n{last_output(lab, host)}")
        time.sleep(0.02)  # between two looks at a host that starts


def kill(lab: Lab, host: Host) -> bool:
    """End a host at once. Returns False if it was not running. What it wrote is kept: this is not a power cut."""
    pid = running_pid(lab, host)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
    launcher.end(lab, host)
    (lab.host_directory(host) / "light.pid").unlink(missing_ok=True)
    return pid is not None


def power_off(lab: Lab, host: Host) -> None:
    """Ask a host to shut down."""
    pid = running_pid(lab, host)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)


def last_output(lab: Lab, host: Host) -> str:
    """Return the end of what the launcher and the host's systemd printed."""
    directory = lab.host_directory(host)
    return f"{tail(directory / 'light.log', 5)}\n{tail(directory / 'console.log')}".strip()

"""Sets a guest's clock after it came back from a snapshot, where it was paused."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from gpuadmin.errors import UnreachableError
from gpuadmin.lab.qmp import connect
from gpuadmin.lab.ssh import ssh_command
from gpuadmin.lab.state import Host, Lab


def set_clock(lab: Lab, host: Host) -> None:
    """Set a guest's clock to the controller's: over its second serial port, or else over ssh, which takes longer."""
    if not set_over_serial(lab.host_directory(host)):
        set_over_ssh(lab, host)


def set_over_serial(directory: Path, limit: float = 5.0) -> bool:
    """Tell gpuadmin-lab-clock.service in a guest the time; False if it does not confirm within `limit` seconds."""
    try:
        with connect(directory, "clock.sock", limit) as port:
            port.sendall(f"{time.time():.3f}\n".encode())
            answer = b""
            while b"set\n" not in answer:
                part = port.recv(100)
                if not part:
                    return False
                answer += part
    except OSError:
        return False
    return True


def set_over_ssh(lab: Lab, host: Host) -> None:
    """Set a guest's clock over ssh. The time is sent once the other side is ready to take it."""
    command = ("sudo", "sh", "-c", "'echo ready; read now; exec date --utc --set @$now'")
    output = ""
    for attempt in range(5):
        time.sleep(attempt)  # a guest that has just been resumed may not answer at once
        with subprocess.Popen(
            ssh_command(lab, host, command, batch=True),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            ready = process.stdout.readline() == "ready\n"
            _, output = process.communicate(f"{time.time():.3f}\n" if ready else "")
        if ready and process.returncode == 0:
            return
    raise UnreachableError(f"{host.name}: its clock could not be set: {output.strip()}")

"""Where a test may stop the work: announced on the console, so that the lab can cut the power at that very moment.

Armed only in a lab's guest: it needs a file that QEMU's firmware interface shows, which no real machine has, and a
file below /var/lib/gpuadmin-lab. Everywhere else this does nothing.
"""

from __future__ import annotations

import os
import signal
import time

LAB = "/sys/firmware/qemu_fw_cfg/by_name/opt/gpuadmin/seed"
ARMED = "/var/lib/gpuadmin-lab/fault"


def at(point: str, *, lab: str = LAB, armed: str = ARMED) -> None:
    """At a point such as ``receive:after``: hold or kill (SIGKILL to us), if armed so.

    What is held goes on when it is disarmed.
    """
    try:
        with open(armed, encoding="ascii") as stream:
            wanted, _, action = stream.read().strip().partition(" ")
    except OSError:
        return
    if wanted != point or not os.path.exists(lab):
        return
    _announce(f"gpuadmin-fault: {point} {action}")
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    while action == "hold" and os.path.exists(armed):
        time.sleep(0.5)  # for the power cut, or until a test disarms it


def _announce(text: str) -> None:
    try:
        with open("/dev/console", "w", encoding="ascii") as console:
            console.write(f"\r\n{text}\r\n")
    except OSError:
        print(text, flush=True)

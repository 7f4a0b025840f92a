"""Where a test may stop the node code: announced on the console, so that the lab can cut the power at that very moment.

Works only in a lab's guest: it needs a file that QEMU's firmware interface shows, which no real machine has, and a
file below /var/lib/gpuadmin-lab. Everywhere else this does nothing.
"""

from __future__ import annotations

import os
import signal
import time

LAB = "/sys/firmware/qemu_fw_cfg/by_name/opt/gpuadmin/seed"
FAULT = "/var/lib/gpuadmin-lab/fault"


def at(point: str, *, lab: str = LAB, fault: str = FAULT) -> None:
    """At a point such as ``receive:after``: hold or kill (SIGKILL to us), if the file says so.

    What is held goes on when the file is deleted.
    """
    try:
        with open(fault, encoding="ascii") as stream:
            wanted, _, action = stream.read().strip().partition(" ")
    except OSError:
        return
    if (
        wanted != point
        # guard: an armed fault ends nothing but a lab's guest
        or not os.path.exists(lab)
    ):
        return
    _announce(f"gpuadmin-fault: {point} {action}")
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    while action == "hold" and os.path.exists(fault):
        time.sleep(0.5)  # for the power cut, or until a test deletes the file


def _announce(text: str) -> None:
    try:
        with open("/dev/console", "w", encoding="ascii") as console:
            console.write(f"\r\n{text}\r\n")
    except OSError:
        print(text, flush=True)

"""Who is running gpuadmin."""

from __future__ import annotations

import os
import pwd
import socket


def who() -> str:
    """`name@machine` of the person at the keyboard, also behind sudo."""
    name = os.environ.get("SUDO_USER")
    if not name:
        try:
            name = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"


def is_timer() -> bool:
    """Whether it is nobody: a timer of the monitor host."""
    return who().startswith("gpuadmin-timers@")

"""Telling people something on their terminals.

Not by wall(1): it asks utmp or logind for terminals, and neither knows those of ssh where the system is built without
utmp (Debian 13). It does not know the panes of tmux and screen anywhere.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable


def tell(message: str, devices: str = "/dev", uid: int | None = None) -> int:
    """Write a message to every terminal that somebody uses, or that this person uses. Returns how many took it."""
    lines = ["", "\a*** gpuadmin:", *_printable(message).splitlines(), ""]
    data = "".join(f"{line}\r\n" for line in lines).encode()
    return sum(_write(path, data) for path in in_use(devices) if uid is None or _owner(path) == uid)


def in_use(devices: str = "/dev") -> list[str]:
    """Paths of the terminals that somebody uses: all pseudo-terminals, and consoles that are given to a person."""
    pseudo = os.path.join(devices, "pts")
    found = [os.path.join(pseudo, name) for name in _names(pseudo) if name.isdigit()]
    consoles = (os.path.join(devices, name) for name in _names(devices) if re.fullmatch(r"tty[A-Z]*[0-9]+", name))
    return found + [path for path in consoles if _owner(path) != 0]


def _owner(path: str) -> int:
    try:
        return os.stat(path).st_uid
    except OSError:
        return 0  # it was unplugged just now


def _names(directory: str) -> Iterable[str]:
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else ()


def _printable(text: str) -> str:
    """The text without what a terminal would obey."""
    return "".join(one for one in text if one == "\n" or one.isprintable())


def _write(path: str, data: bytes) -> bool:
    """Write to a terminal that may be gone, or that its user has stopped: it never waits."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return stat.S_ISCHR(os.fstat(handle).st_mode) and os.write(handle, data) == len(data)
    except OSError:
        return False
    finally:
        os.close(handle)

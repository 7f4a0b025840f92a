"""Needs of a rootless Docker besides its place: newuidmap that may do its work, and units that may start."""

from __future__ import annotations

import os
import stat

from .keys import DIRECTORY
from .subject import Subject

MAPPERS = ("newuidmap", "newgidmap")
UNITS = ("docker.service", "docker.socket")
#: The directory of a person's own units, below their home (systemd.unit(5)).
OWN_UNITS = (".config", "systemd", "user")
CAPABILITY = "security.capability"


def find_mapper_faults(subject: Subject) -> list[str]:
    """Reasons why the helpers cannot set up a person's range of ids: without setuid root or a capability they fail."""
    found = []
    for name in MAPPERS:
        path = subject.path(f"usr/bin/{name}")
        try:
            facts = os.stat(path)
        except FileNotFoundError:
            found.append(f"/usr/bin/{name} is not installed")
            continue
        if not facts.st_mode & stat.S_IXOTH:
            found.append(f"/usr/bin/{name} has mode {stat.S_IMODE(facts.st_mode):04o}: people cannot run it")
        elif not (facts.st_mode & stat.S_ISUID and facts.st_uid == 0) and not _has_capability(path):
            found.append(f"/usr/bin/{name} is not setuid root (mode {stat.S_IMODE(facts.st_mode):04o})")
    return found


def _has_capability(path: str) -> bool:
    try:
        return bool(os.getxattr(path, CAPABILITY))
    except OSError:
        return False


def list_masked_units(home: str, at: int | None = None) -> list[str]:
    """Units of Docker's that a person has masked for themselves: a link to /dev/null. No link is followed."""
    opened: list[int] = []
    found = []
    try:
        directory = at
        for name in (home, *OWN_UNITS):
            directory = os.open(name, DIRECTORY, dir_fd=directory)
            opened.append(directory)
        for unit in UNITS:
            try:
                if os.readlink(unit, dir_fd=directory) == "/dev/null":
                    found.append(unit)
            except OSError:
                continue  # it is not one, or a file of theirs
    except OSError:
        return []  # they have none there, or links in the way; another part reports a home that cannot be entered
    finally:
        for one in opened:
            os.close(one)
    return found

"""What kind of system a host is: its distribution, installed packages, systemd's units."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence

from .errors import NodeError
from .run import failure, look

DPKG_STATUS = "/var/lib/dpkg/status"


def parse_os_release(text: str) -> dict[str, str]:
    """os-release(5): shell assignments."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key: " ".join(shlex.split(value)) for key, _, value in pairs}


def is_debian(release: Mapping[str, str]) -> bool:
    """Whether it is Debian, Ubuntu or one of their kin, by its id or what it says it is like."""
    return not {"debian", "ubuntu"}.isdisjoint([release.get("ID", ""), *release.get("ID_LIKE", "").split()])


def os_release() -> dict[str, str]:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as stream:
                return parse_os_release(stream.read())
    return {}


def parse_dpkg_status(text: str) -> list[str]:
    """Names of packages that are installed and configured, from dpkg's status file."""
    found = []
    for block in text.split("\n\n"):
        if re.search(r"^Status: \S+ ok installed$", block, re.MULTILINE):
            name = re.match(r"Package: (\S+)", block)
            if name:
                found.append(name.group(1))
    return found


def output(command: Sequence[str]) -> str:
    """What a command prints. Raises NodeError if it fails: that nothing is known is not that there is nothing."""
    try:
        done = look(command)
    except OSError as error:
        raise NodeError(f"{command[0]}: {error.strerror}") from None
    # guard: units that systemd does not tell are not none
    if done.returncode != 0 and done.stderr.strip():  # a listing that is empty may end with 1, without a word
        raise failure(command, done, "this host does not say what it has")
    return done.stdout


def installed_packages() -> list[str]:
    """Names of installed packages, sorted."""
    with open(DPKG_STATUS, encoding="utf-8", errors="replace") as stream:
        return sorted(set(parse_dpkg_status(stream.read())))


def units(command: Sequence[str]) -> list[str]:
    """The unit names that a listing of systemctl begins its lines with. Raises NodeError."""
    return sorted({line.split()[0] for line in output(command).splitlines() if line.strip()})

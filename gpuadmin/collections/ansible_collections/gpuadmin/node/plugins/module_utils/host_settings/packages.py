"""Packages and their versions, the largest first."""

from __future__ import annotations

import re

from ..errors import NodeError
from ..system import DPKG_STATUS, family, parse_os_release
from .place import Place, Settings

_BYTES = 64 << 20


def packages(place: Place) -> Settings:
    """Name → version of what is installed, ordered from the largest to the smallest. Raises NodeError."""
    of_family = family(parse_os_release(place.text("/etc/os-release")))
    if of_family == "debian":
        with open(place.path(DPKG_STATUS), encoding="utf-8", errors="replace") as stream:
            return of_dpkg(stream.read(_BYTES))
    if of_family == "redhat":
        rows = _asked(place, "rpm", "--query", "--all", "--queryformat", "%{SIZE} %{NAME} %{VERSION}-%{RELEASE}\\n")
        found = [line.split(" ", 2) for line in rows]
        found.sort(key=lambda one: -int(one[0]) if one[0].isdecimal() else 0)
        return {name: version for _, name, version in found}
    if of_family == "archlinux":
        return dict(line.split(" ", 1) for line in _asked(place, "pacman", "-Q"))
    raise NodeError("gpuadmin does not know this host's kind of packages")


def _asked(place: Place, *command: str) -> list[str]:
    text = place.output(*command)
    if text is None:
        raise NodeError(f"there is no {command[0]}")
    return [line for line in text.splitlines() if line.count(" ") >= 1]


def of_dpkg(text: str) -> Settings:
    """dpkg's status file: Package, Architecture, Version, Installed-Size (kB) of each that is installed."""
    found = []
    for block in text.split("\n\n"):
        if not re.search(r"^Status: \S+ ok installed$", block, re.MULTILINE):
            continue
        said = dict(re.findall(r"^(Package|Version|Installed-Size|Architecture): (\S+)", block, re.MULTILINE))
        size = said.get("Installed-Size", "0")
        foreign = f":{said['Architecture']}" if said.get("Architecture") == "i386" else ""
        found.append(
            (-int(size) if size.isdecimal() else 0, said.get("Package", "") + foreign, said.get("Version", ""))
        )
    return {name: version for _, name, version in sorted(found)}

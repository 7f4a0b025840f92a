"""Packages and their versions, the largest first."""

from __future__ import annotations

import re

from ..errors import NodeError
from ..system import DPKG_STATUS, is_debian, parse_os_release
from .place import Place, Settings

_BYTES = 64 << 20


def packages(place: Place) -> Settings:
    """Name → version of what is installed, ordered from the largest to the smallest. Raises NodeError."""
    if not is_debian(parse_os_release(place.text("/etc/os-release"))):
        raise NodeError("gpuadmin does not know this host's kind of packages")
    with open(place.path(DPKG_STATUS), encoding="utf-8", errors="replace") as stream:
        return of_dpkg(stream.read(_BYTES))


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

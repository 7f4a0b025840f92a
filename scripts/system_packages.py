"""Print the Debian packages that this machine lacks for `fast` (ssh, Prometheus), `demo` (the lab) or `test` (all).

The lab's own table is the one home of what the lab needs; what only tests need is here.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from gpuadmin.lab import firmware
from gpuadmin.lab.commands import LIGHT, OPTIONAL, PACKAGES, search_path
from gpuadmin.lab.releases import DEFAULT, RELEASES

KEYRING = Path(RELEASES[DEFAULT].distribution.keyring)
#: Debian has it only since 13. What needs it says so, and its tests are skipped without it.
NOT_EVERYWHERE = "ubuntu-keyring"

# tool -> Debian package. What `make test-fast` needs as well.
FAST_TOOLS: Mapping[str, str] = {
    "age": "age",
    "amtool": "prometheus-alertmanager",
    "lua5.4": "lua5.4",
    "modinfo": "kmod",
    "nginx": "nginx",
    "promtool": "prometheus",
}
TEST_TOOLS: Mapping[str, str] = {
    "chromium": "chromium",
    "cpio": "cpio",
    "linux.uml": "user-mode-linux",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "sfdisk": "fdisk",
    "zstd": "zstd",
}


def missing_packages(purpose: str) -> list[str]:
    """Given a purpose, return the Debian packages that are missing, each once."""
    wanted = {tool: names[0] for tool, names in PACKAGES.items() if tool == "ssh" or purpose != "fast"}
    wanted.pop(NOT_EVERYWHERE, None)
    if purpose != "test":
        # light hosts are root's
        left_out = OPTIONAL if os.geteuid() == 0 else OPTIONAL | set(LIGHT)
        wanted = {tool: package for tool, package in wanted.items() if tool not in left_out}
    if purpose != "demo":
        wanted |= FAST_TOOLS
    if purpose == "test":
        wanted |= TEST_TOOLS
    return list(dict.fromkeys(package for tool, package in wanted.items() if not _is_there(tool)))


def _is_there(tool: str) -> bool:
    if tool == "debian-archive-keyring":
        return KEYRING.exists()
    if tool == "OVMF":
        return firmware.is_there()
    return shutil.which(tool, path=search_path()) is not None


if __name__ == "__main__":
    print(" ".join(missing_packages(sys.argv[1] if len(sys.argv) > 1 else "demo")))

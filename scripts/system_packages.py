"""Print the Debian packages that this machine lacks for `fast` (ssh, Prometheus), `demo` (the lab) or `test` (all).

And on stderr what it can, what runs where and what is left out.

The lab's own table is the one home of what the lab needs; what only tests need is here. `scripts/bootstrap` asks before
there is an environment: this imports the standard library, and of gpuadmin what imports no more.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gpuadmin.lab import firmware, probe
from gpuadmin.lab.programs import LIGHT, LIGHT_DISK, OPTIONAL, PACKAGES, search_path
from gpuadmin.lab.releases import DEFAULT, RELEASES

KEYRING = Path(RELEASES[DEFAULT].distribution.keyring)
#: Debian has it only since 13. What needs it says so, and its tests are skipped without it.
NOT_EVERYWHERE = "ubuntu-keyring"
#: Ubuntu has these in its archive no more: Chromium is a snap there. Tests that need one are left out, and say so.
NOT_ON_UBUNTU = frozenset({"chromium", "linux.uml"})
#: Those of the lab's programs that gpuadmin runs without a lab, too.
VERBS = ("ssh", "ssh-keygen", "ps")

# tool -> Debian package. What `make test-fast` needs as well.
FAST_TOOLS: Mapping[str, str] = {
    "age": "age",
    "amtool": "prometheus-alertmanager",
    "cc": "gcc libc6-dev",
    "chattr": "e2fsprogs",
    "cpio": "cpio",
    "curl": "curl",
    "fsfreeze": "util-linux",
    "git": "git",
    "gpg": "gpg",
    "ipmi_sim": "openipmi",
    "ipmitool": "ipmitool",
    "prometheus-ipmi-exporter": "prometheus-ipmi-exporter",
    "lua5.4": "lua5.4",
    "man": "man-db",
    "modinfo": "kmod",
    "nginx": "nginx",
    "openssl": "openssl",
    "promtool": "prometheus",
    "setcap": "libcap2-bin",
    "sfdisk": "fdisk",
    "systemd-analyze": "systemd",
    "xz": "xz-utils",
    "zstd": "zstd",
}
# What its tests need that only root can run.
ROOT_TOOLS: Mapping[str, str] = {
    "btrfs": "btrfs-progs",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
}
TEST_TOOLS: Mapping[str, str] = {
    "chromium": "chromium",
    "dnsmasq": "dnsmasq-base",
    "linux.uml": "user-mode-linux",
    "mmdebstrap": "mmdebstrap",
}


def missing_packages(purpose: str) -> list[str]:
    """Given a purpose, return the Debian packages that are missing, each once."""
    wanted = {tool: package for tool, package in PACKAGES.items() if tool in VERBS or purpose != "fast"}
    wanted.pop(NOT_EVERYWHERE, None)
    root = os.geteuid() == 0
    if purpose != "test":
        # light hosts are root's, and where there can be none their programs are for nothing
        light = root and not probe.look().why_no_light()
        left_out = OPTIONAL if light else OPTIONAL | {*LIGHT, *LIGHT_DISK}
        if purpose == "demo" and probe.look().why_no_lab():
            left_out = PACKAGES.keys() - {*VERBS}
        wanted = {tool: package for tool, package in wanted.items() if tool not in left_out}
    if purpose != "demo":
        wanted |= FAST_TOOLS | (ROOT_TOOLS if root or purpose == "test" else {})
    if purpose == "test":
        absent = NOT_ON_UBUNTU if probe.is_ubuntu() else ()
        wanted |= {tool: package for tool, package in TEST_TOOLS.items() if tool not in absent}
    missing = (package for tool, package in wanted.items() if not _is_in_place(tool))
    return list(dict.fromkeys(name for packages in missing for name in packages.split()))


def _is_in_place(tool: str) -> bool:
    if tool == "debian-archive-keyring":
        return KEYRING.exists()
    if tool == "OVMF":
        return firmware.finds_firmware()
    return shutil.which(tool, path=search_path()) is not None


if __name__ == "__main__":
    PURPOSE = sys.argv[1] if len(sys.argv) > 1 else "demo"
    print(*probe.look().lines(PURPOSE), sep="\n", file=sys.stderr)
    print(*missing_packages(PURPOSE))

"""OVMF, the UEFI firmware that guests can have: where it is on this machine."""

from __future__ import annotations

import os
from pathlib import Path

#: Code and variables in one file: Debian and Ubuntu, Arch, Arch formerly.
PLACES = ("/usr/share/ovmf/OVMF.fd", "/usr/share/edk2/x64/OVMF.4m.fd", "/usr/share/edk2-ovmf/x64/OVMF.fd")


def finds_firmware() -> bool:
    """Tell whether this machine has OVMF where a distribution puts it."""
    return any(Path(place).is_file() for place in PLACES)


def ovmf() -> Path:
    """Return OVMF's file: GPUADMIN_LAB_OVMF, else where a distribution puts it. Raises with the package's name.

    One file, given to QEMU as a ROM, and not flash with variables of its own: nothing that is set there outlives the
    guest's process, and no second image has to agree with the disk in snapshots.
    """
    # not above: `make` reads this file before there is an environment
    from gpuadmin.errors import GpuadminError
    from gpuadmin.lab.commands import missing_error

    override = os.environ.get("GPUADMIN_LAB_OVMF")
    if override:
        if not Path(override).is_file():
            raise GpuadminError(
                f"GPUADMIN_LAB_OVMF is {override!r}, and there is no such file",
                hint="name OVMF with code and variables in one file, or unset it",
            )
        return Path(override).absolute()
    for place in PLACES:
        if Path(place).is_file():
            return Path(place)
    raise missing_error(["OVMF"])

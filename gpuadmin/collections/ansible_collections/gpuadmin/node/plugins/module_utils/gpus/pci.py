"""GPUs on the PCI bus, by sysfs: what lspci would say. Nothing of a GPU's driver is asked."""

from __future__ import annotations

import glob
import os
from dataclasses import replace

from gpuadmin.common.records.gpus import OnBus

BUS = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
#: Display controllers: VGA, and "3D" (a GPU without a display).
CLASSES = ("0x0300", "0x0302")
#: Where distributions have pciutils' list of names.
NAMES = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")
SWITCH = "0x0680"  # a bridge of another kind: NVSwitches are
_WIDEST = 32  # PCIe knows no wider link; a device that has left the bus says 63 (all bits set)
_MOST = 8 << 20  # bytes of the list of names; it has 1.4 million


def devices(bus: str = BUS, names: tuple[str, ...] = NAMES) -> list[OnBus]:
    """The GPUs (NVIDIA's display controllers) in the order of their addresses."""
    found = []
    for path in sorted(glob.glob(f"{bus}/*")):
        if _attribute(path, "vendor") != NVIDIA or not (_attribute(path, "class") or "").startswith(CLASSES):
            continue
        driver = os.path.join(path, "driver")
        found.append(
            OnBus(
                os.path.basename(path),
                NVIDIA,
                _attribute(path, "device") or "unknown",
                os.path.basename(os.path.realpath(driver)) if os.path.exists(driver) else None,
                _lanes(_attribute(path, "current_link_width")),
                _lanes(_attribute(path, "max_link_width")),
                None,
            )
        )
    return _named(found, names) if found else []


def switches(bus: str = BUS) -> int:
    """How many NVSwitches the bus has. GPUs behind them need the fabric manager before anybody can use them."""
    return sum(
        1
        for path in glob.glob(f"{bus}/*")
        if _attribute(path, "vendor") == NVIDIA and (_attribute(path, "class") or "").startswith(SWITCH)
    )


def summary(bus: str = BUS) -> list[str]:
    """Each GPU as `ADDRESS DRIVER`, as records of nodes have it; `none` for one without driver."""
    return [f"{one.address} {one.driver or 'none'}" for one in devices(bus, ())]


def _attribute(path: str, name: str) -> str | None:
    try:
        with open(os.path.join(path, name), encoding="ascii", errors="replace") as stream:
            return stream.read(256).strip()
    except OSError:  # the device has gone meanwhile, or has no such attribute
        return None


def _lanes(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and 0 < int(text) <= _WIDEST else None


def _named(found: list[OnBus], names: tuple[str, ...]) -> list[OnBus]:
    wanted = {one.device[2:] for one in found}
    known: dict[str, str] = {}
    for path in names:
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                known = _parse_names(stream.read(_MOST), wanted)
            break
        except OSError:
            continue
    return [replace(one, name=known.get(one.device[2:])) for one in found]


def _parse_names(text: str, wanted: set[str]) -> dict[str, str]:
    """pci.ids(5): a line per vendor, below it one per device after a tab, below that subsystems after two."""
    known, vendor = dict[str, str](), ""
    for line in text.splitlines():
        if not line or line[0] == "#":
            continue
        number, _, name = line.strip().partition("  ")
        if line[0] != "\t":
            vendor = number
        elif line[1:2] != "\t" and vendor == NVIDIA[2:] and number in wanted:
            known[number] = name
    return known

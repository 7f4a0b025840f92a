"""BIOS, board and processor, and the firmware of network cards, NVMe disks and InfiniBand: as the kernel has them."""

from __future__ import annotations

import array
import fcntl
import os
import re
import socket
import struct

from .place import Place, Settings

_DMI = (
    "sys_vendor", "product_name", "product_version", "board_vendor", "board_name", "board_version", "bios_vendor",
    "bios_version", "bios_date", "bios_release", "ec_firmware_release",
)  # fmt: skip
_SIOCETHTOOL, _GDRVINFO = 0x8946, 0x3  # linux/sockios.h, linux/ethtool.h
_DRVINFO = struct.Struct("=I32s32s32s32s32s12s5I")


def firmware(place: Place) -> Settings:
    """What was flashed into a machine, by name; several cards of one driver are one text, a version a line."""
    found: Settings = {}
    for name in _DMI:
        value = place.word(f"/sys/class/dmi/id/{name}")
        if value:
            found[name.replace("_", " ")] = value
    found.update(_processor(place))
    several: dict[str, set[str]] = {}
    for card in place.names("/sys/class/net"):
        if os.path.exists(place.path(f"/sys/class/net/{card}/device")):
            told = _card(card)
            if told is not None:
                several.setdefault(f"network cards of {told[0]}", set()).add(told[1])
    for disk in place.names("/sys/class/nvme"):
        model = place.word(f"/sys/class/nvme/{disk}/model") or "an unknown model"
        several.setdefault(f"NVMe {model}", set()).add(place.word(f"/sys/class/nvme/{disk}/firmware_rev"))
    for card in place.names("/sys/class/infiniband"):
        kind = place.word(f"/sys/class/infiniband/{card}/board_id") or place.word(
            f"/sys/class/infiniband/{card}/hca_type"
        )
        several.setdefault(f"InfiniBand {kind}", set()).add(place.word(f"/sys/class/infiniband/{card}/fw_ver"))
    found.update({name: "\n".join(sorted(versions)) for name, versions in several.items()})
    return found


def _processor(place: Place) -> Settings:
    """Model, microcode, number; and memory, in GiB."""
    try:
        with open(place.path("/proc/cpuinfo"), "rb") as stream:
            text = stream.read(4 << 20).decode("utf-8", "replace")
        with open(place.path("/proc/meminfo"), "rb") as stream:
            memory = re.search(r"^MemTotal:\s+(\d+) kB", stream.read(65536).decode("utf-8", "replace"), re.MULTILINE)
    except OSError:
        return {}
    found = {"processors": str(len(re.findall(r"^processor\s*:", text, re.MULTILINE)))}
    for name in ("model name", "microcode"):
        value = re.search(rf"^{name}\s*:\s*(.*)$", text, re.MULTILINE)
        if value:
            found[name] = value.group(1).strip()
    if memory:
        found["memory"] = f"{round(int(memory.group(1)) / (1 << 20))} GiB"
    return found


def _card(name: str) -> tuple[str, str] | None:
    """The driver of a network card, and its firmware (ethtool -i); None where the driver does not say."""
    told = array.array("B", bytes(_DRVINFO.size))
    struct.pack_into("=I", told, 0, _GDRVINFO)
    request = struct.pack("16sP", name.encode()[:15], told.buffer_info()[0])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
            fcntl.ioctl(channel, _SIOCETHTOOL, request)
    except OSError:
        return None
    fields = _DRVINFO.unpack(told.tobytes())
    driver, _version, version = (one.split(b"\0")[0].decode("utf-8", "replace") for one in fields[1:4])
    return driver, version or "says no version"

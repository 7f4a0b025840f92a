"""The bytes that a lab disk starts with, and the small archives that the builder VM is given."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SECTOR = 512
_MIB = 1024 * 1024 // SECTOR
#: The usual gap before the first partition, 1 MiB: GRUB's core image is in it.
FIRST_SECTOR = 2048


Firmware = Literal["bios", "uefi"]


@dataclass(frozen=True)
class Layout:
    """How a disk is divided: partition sizes in MiB, 0 for the rest of the disk.

    `grub_cfg`: the directory of guest/ whose grub.cfg it has. `firmware`: what finds GRUB on it: a BIOS in an MBR and
    the gap after it, UEFI as a file on the first partition, which is the ESP of a GPT then.
    """

    name: str
    size_mib: int
    partitions_mib: tuple[int, ...]
    grub_cfg: str
    firmware: Firmware = "bios"


NODE = Layout("node", 10 * 1024, (64, 0), grub_cfg="node")
NODE_UEFI = Layout("node-uefi", 10 * 1024, (64, 0), grub_cfg="node", firmware="uefi")
ORDINARY = Layout("ordinary", 10 * 1024, (0,), grub_cfg="ordinary")
LAYOUTS: Mapping[str, Layout] = {layout.name: layout for layout in (NODE, NODE_UEFI, ORDINARY)}


def boot_sector(layout: Layout, boot_image: bytes) -> bytes:
    """Given a layout and GRUB's boot.img, return sector 0: GRUB's code and an MBR partition table."""
    total = layout.size_mib * _MIB
    entries, start = b"", FIRST_SECTOR
    for number, size_mib in enumerate(layout.partitions_mib):
        sectors = size_mib * _MIB if size_mib else total - start
        # status, CHS (unused: LBA is), type 0x83 Linux, CHS, first sector, sectors
        entries += struct.pack(
            "<B3sB3sII", 0x80 if number == 0 else 0, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", start, sectors
        )
        start += sectors
    return boot_image[:440] + b"GADM\0\0" + entries.ljust(64, b"\0") + b"\x55\xaa"


def partition_script(layout: Layout) -> str:
    """Given a layout with a GPT, return the script from which sfdisk(8) makes it: an ESP, and what follows it."""
    lines = ["label: gpt", f"first-lba: {FIRST_SECTOR}"]
    for number, size_mib in enumerate(layout.partitions_mib):
        size = f"size={size_mib}MiB, " if size_mib else ""
        lines.append(size + ("type=uefi, name=gpuadmin-boot" if number == 0 else "type=linux, name=gpuadmin"))
    return "\n".join(lines) + "\n"


def write_blank_disk(target: Path, layout: Layout) -> None:
    """Write a sparse raw disk of a layout's size without anything on it."""
    with target.open("wb") as disk:
        disk.truncate(layout.size_mib * 1024 * 1024)


def write_empty_disk(target: Path, layout: Layout, boot_image: bytes, core_image: bytes) -> None:
    """Write a sparse raw disk with an MBR and GRUB in place, its file systems not made yet."""
    if len(core_image) > (FIRST_SECTOR - 1) * SECTOR:
        raise ValueError("GRUB's core image does not fit before the first partition")
    with target.open("wb") as disk:
        disk.write(boot_sector(layout, boot_image))
        disk.write(core_image)
        disk.truncate(layout.size_mib * 1024 * 1024)


def grub_environment(**variables: str) -> bytes:
    """Return a GRUB environment block: 1024 bytes, padded with #, as grub-editenv(1) writes it."""
    lines = "".join(f"{name}={value}\n" for name, value in variables.items())
    return ("# GRUB Environment Block\n" + lines).encode().ljust(1024, b"#")


def cpio(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """Given path → (content, permissions), return a newc cpio archive, as the kernel unpacks for an initramfs.

    Directories that are named by a path are made first. Padded to 512 bytes, so that archives can be joined.
    """
    archive, seen = b"", set[str]()
    for path, (content, permissions) in files.items():
        for parent in reversed(Path(path).parents):
            if str(parent) not in (".", *seen):
                archive += _cpio_entry(str(parent), b"", 0o040755)
                seen.add(str(parent))
        archive += _cpio_entry(path, content, 0o100000 | permissions)
    archive += _cpio_entry("TRAILER!!!", b"", 0)
    return archive.ljust(-(-len(archive) // SECTOR) * SECTOR, b"\0")


def _cpio_entry(name: str, content: bytes, mode: int) -> bytes:
    encoded = name.encode() + b"\0"
    # inode, mode, uid, gid, nlink, mtime, size, device (2), special device (2), name length, checksum (unused)
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
    header = b"070701" + b"".join(b"%08x" % field for field in fields)
    return _pad4(header + encoded) + _pad4(content)


def _pad4(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)

"""A stream for ``btrfs receive``, written by hand: what a sender that was taken over can send.

The format is that of linux/fs/btrfs/send.h, version 1: a header, then commands of attributes, each with a crc32c.
"""

from __future__ import annotations

import struct
import uuid

SUBVOL, SNAPSHOT, MKFILE, MKDIR, SYMLINK, RENAME, UNLINK, WRITE, CLONE, TRUNCATE, CHMOD, CHOWN, END = (
    1, 2, 3, 4, 8, 9, 11, 15, 16, 17, 18, 19, 21,
)  # fmt: skip
UUID, CTRANSID, INO, SIZE, MODE, UID, GID = 1, 2, 3, 4, 5, 6, 7
PATH, PATH_TO, PATH_LINK, OFFSET, DATA = 15, 16, 17, 18, 19
CLONE_UUID, CLONE_CTRANSID, CLONE_PATH, CLONE_OFFSET, CLONE_LEN = 20, 21, 22, 23, 24


def _table() -> list[int]:
    table = []
    for first in range(256):
        value = first
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC = _table()


def crc32c(data: bytes) -> int:
    """As btrfs has it: it begins with 0, and nothing is inverted."""
    crc = 0
    for byte in data:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 255]
    return crc


def number(kind: int, value: int) -> bytes:
    return struct.pack("<HHQ", kind, 8, value)


def text(kind: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<HH", kind, len(data)) + data


def command(kind: int, *attributes: bytes) -> bytes:
    body = b"".join(attributes)
    bare = struct.pack("<IHI", len(body), kind, 0) + body
    return struct.pack("<IHI", len(body), kind, crc32c(bare)) + body


def identity(own: str) -> bytes:
    return text(UUID, uuid.UUID(own).bytes) + number(CTRANSID, 7)


def subvol(name: str, own: str) -> bytes:
    return command(SUBVOL, text(PATH, name), identity(own))


def snapshot(name: str, own: str, parent: str, generation: int) -> bytes:
    there = text(CLONE_UUID, uuid.UUID(parent).bytes) + number(CLONE_CTRANSID, generation)
    return command(SNAPSHOT, text(PATH, name), identity(own), there)


def mkfile(path: str) -> bytes:
    return command(MKFILE, text(PATH, path), number(INO, 300))


def mkdir(path: str) -> bytes:
    return command(MKDIR, text(PATH, path), number(INO, 301))


def symlink(path: str, target: str) -> bytes:
    return command(SYMLINK, text(PATH, path), number(INO, 302), text(PATH_LINK, target))


def write(path: str, data: bytes) -> bytes:
    return command(WRITE, text(PATH, path), number(OFFSET, 0), text(DATA, data))


def unlink(path: str) -> bytes:
    return command(UNLINK, text(PATH, path))


def rename(path: str, target: str) -> bytes:
    return command(RENAME, text(PATH, path), text(PATH_TO, target))


def chmod(path: str, mode: int) -> bytes:
    return command(CHMOD, text(PATH, path), number(MODE, mode))


def chown(path: str, uid: int) -> bytes:
    return command(CHOWN, text(PATH, path), number(UID, uid), number(GID, uid))


def clone(path: str, origin: str, source: str, size: int) -> bytes:
    """Share ``size`` bytes with the file ``source`` of the subvolume with the uuid ``origin``."""
    return command(
        CLONE, number(OFFSET, 0), number(CLONE_LEN, size), text(PATH, path), text(CLONE_UUID, uuid.UUID(origin).bytes),
        number(CLONE_CTRANSID, 7), text(CLONE_PATH, source), number(CLONE_OFFSET, 0),
    )  # fmt: skip


def stream(*commands: bytes) -> bytes:
    return b"btrfs-stream\0" + struct.pack("<I", 1) + b"".join(commands) + command(END)

"""What a home may hold, and what is beside the sets."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from ansible_collections.gpuadmin.node.plugins.module_utils.backups import (
    backup_set,
)

from tests.support.hostile_home import hostile
from tests.support.storage import Storage, run

# acl(5) as the kernel keeps it: tag, permissions, id; user 20002 and group 20003 by name
ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", *entry)
    for entry in (
        (1, 7, 0xFFFFFFFF), (2, 7, 20002), (4, 5, 0xFFFFFFFF), (8, 4, 20003), (16, 7, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF)
    )
)  # fmt: skip


def everything(home: Path) -> None:
    hostile(home)
    run("chattr", "-i", home / "frozen/immutable")
    run("chattr", "-a", home / "frozen")
    for name in ("closed", "fifo", "one"):
        os.setxattr(home / name, "system.posix_acl_access", ACL)
    os.setxattr(home / "frozen", "system.posix_acl_default", ACL)
    (home / "three").hardlink_to(home / "one")
    (home / "frozen/program").write_bytes(b"#!/bin/sh")
    (home / "frozen/program").chmod(0o6755)
    os.setxattr(home / "frozen/program", "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0))
    (home / "sticky").mkdir()
    (home / "sticky").chmod(0o3775)
    for path in sorted(home.rglob("*"), reverse=True):
        os.utime(path, ns=(1_000_000_007, 1_500_000_000_123_456_789), follow_symlinks=False)


def rubbish(storage: Storage) -> list[str]:
    """What lies beside the sets."""
    return [path.name for path in storage.directory.iterdir() if not backup_set.NAME.match(path.name)]

"""What people's homes are known to hold."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tests.support.storage import run


def hostile(home: Path) -> None:
    """Everything that people's homes are known to hold."""
    (home / "newline\nname").write_bytes(b"1")
    Path(os.fsdecode(os.fsencode(home) + b"/\xff\xfe not utf-8")).write_bytes(b"2")
    (home / "-rf *").write_bytes(b"3")
    (home / "$(reboot)").mkdir()
    (home / "subuid").write_bytes(b"4")
    os.chown(home / "subuid", 2147483648 + 999, 2147483648 + 999)
    with (home / "sparse").open("wb") as stream:
        stream.truncate(1 << 34)
    (home / "one").write_bytes(b"linked")
    os.link(home / "one", home / "two")
    os.mkfifo(home / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(home)
        server.bind("socket")
        os.chdir(here)
    os.mknod(home / "device", 0o600 | 0o020000, os.makedev(1, 3))
    (home / "link").symlink_to("/etc/passwd")
    (home / "dangling").symlink_to(os.fsdecode(b"\xff"))
    (home / "closed").mkdir(mode=0o000)
    (home / "frozen").mkdir()
    (home / "frozen/immutable").write_bytes(b"5")
    os.setxattr(home / "one", b"user.note", b"\0\xff")
    run("chattr", "+i", home / "frozen/immutable")
    run("chattr", "+a", home / "frozen")

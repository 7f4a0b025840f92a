"""A storage host on a real btrfs in a file, for tests of backups, wiping and restoring."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.backups import making
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.backup_set import Backup
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import homes

from gpuadmin.common.records.backups import BackupOrder, RestoreOrder
from tests.support.machine import cannot_mount

FIRST = "20261221T010203Z-reset-2026-2"
SECOND = "20261228T010203Z-daily"
MINJI, JIHO = ("minji", 20001), ("jiho", 20002)


def run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    return done.stdout


@contextmanager
def mounted(image: Path, point: Path, megabytes: int, *options: str) -> Iterator[Path]:
    """A fresh btrfs in a file, mounted, for tests of the mark `btrfs`."""
    with image.open("wb") as stream:
        stream.truncate(megabytes << 20)
    run("mkfs.btrfs", "-q", *options, image)
    point.mkdir(parents=True)
    try:
        run("mount", "-o", "loop", image, point)
    except subprocess.CalledProcessError as error:
        cannot_mount(error)
    try:
        yield point
    finally:
        for mount in reversed(run("findmnt", "-rno", "TARGET", "-R", point).split()):
            subprocess.run(["umount", mount], check=False)
        image.unlink()


class Storage:
    """Homes as a subvolume, backups beside it."""

    def __init__(self, point: Path) -> None:
        self.point = point
        self.root = point / "homes"
        self.directory = point / "backups"
        run("btrfs", "subvolume", "create", self.root)

    def home(self, name: str, uid: int, files: dict[str, bytes] | None = None) -> Path:
        path = self.root / name
        path.mkdir(mode=0o700)
        for inner, content in (files if files is not None else {"thesis": b"precious\n"}).items():
            (path / inner).parent.mkdir(parents=True, exist_ok=True)
            (path / inner).write_bytes(content)
        self.give(path, uid)
        return path

    @staticmethod
    def give(path: Path, uid: int) -> None:
        for one in (path, *path.rglob("*")):
            os.chown(one, uid, uid, follow_symlinks=False)

    def request(self, name: str = FIRST, verify: list[str] | None = None) -> BackupOrder:
        return self.order(name=name, users=verify)

    def order(self, **more: Any) -> BackupOrder:
        where = {"root": str(self.root), "directory": str(self.directory), "mountpoint": str(self.point)}
        return BackupOrder(**{**where, "workers": 1, **more})

    def backup(self, name: str = FIRST, verify: list[str] | None = None) -> Backup:
        return making.create(self.request(name, verify))

    def wiping(self, *people: tuple[str, int], backup: str = FIRST) -> homes.Request:
        users = [{"name": name, "uid": uid} for name, uid in people]
        return homes.Request(str(self.root), str(self.directory), backup, users, str(self.point))

    def wipe(self, *people: tuple[str, int], backup: str = FIRST, check: bool = False) -> homes.Plan:
        return homes.converge(self.wiping(*people, backup=backup), check=check)

    def wipe_all(self, *people: tuple[str, int]) -> tuple[homes.Plan, dict[str, homes.Purged]]:
        plan = self.wipe(*people)
        return plan, homes.empty_trash(self.wiping(*people))

    @property
    def names(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir())


def wanted(storage: Storage, **more: object) -> RestoreOrder:
    """A request to restore minji's home from the newest backup that has it."""
    request = RestoreOrder(str(storage.root), str(storage.directory), "minji", "", mountpoint=str(storage.point))
    return replace(request, **more)


def flip(home: str, name: str = "thesis", content: bytes = b"Precious\n") -> None:
    """Change a byte of a snapshot, leaving size and times."""
    volume = str(Path(home).parent)
    run("btrfs", "property", "set", "-f", "-ts", volume, "ro", "false")
    path = Path(home, name)
    facts = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    run("btrfs", "property", "set", "-ts", volume, "ro", "true")


def leftover(storage: Storage) -> Path:
    """A file that a wipe left out of sight, with what somebody wrote meanwhile."""
    trash = storage.root / homes.TRASH
    for path in (trash, trash / FIRST):
        path.mkdir(mode=0o700)
    (trash / FIRST / "minji").mkdir()
    (trash / FIRST / "minji/late").write_bytes(b"work")
    return trash / FIRST / "minji/late"

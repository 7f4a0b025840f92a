"""A node's disk that people fill, on a real btrfs in a file, for tests of limits."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs, qgroups
from ansible_collections.gpuadmin.node.plugins.module_utils.limits import room
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.room import Places, Rooms

from tests.support.storage import mounted, run

MINJI = 20001


class Disk:
    """A node's disk: `local`, where people write, and `state`, where they do not."""

    def __init__(self, top: Path, root: Path) -> None:
        self.top, self.local, self.state = top, top / "local", top / "state"
        for path in (self.local, self.state):
            run("btrfs", "subvolume", "create", path)
        self.local.chmod(0o1777)
        (self.local / ".docker").mkdir(mode=0o711)
        self.places = Places(str(root / "state"), str(root / "run"))
        self.wanted = Rooms("20%", [str(self.local), str(self.local / ".docker")])

    def keep(self, reserve: str = "20%", *, check: bool = False) -> room.Kept:
        return room.keep(self.places, replace(self.wanted, reserve=reserve), check=check)

    def write(self, path: Path, megabytes: int) -> bool:
        """Whether somebody can write so much."""
        command = ("dd", "if=/dev/urandom", f"of={path}", "bs=1M", f"count={megabytes}", "conv=fsync", "status=none")
        return as_minji(*command).returncode == 0

    def fill(self) -> None:
        while self.write(self.local / f"large-{time.monotonic_ns()}", 50):
            pass
        number = 0
        while as_minji("sh", "-c", f"head -c 8000 /dev/zero >{self.local}/small-{number}").returncode == 0:
            number += 1
            assert number < 20_000
        # sysfs has what a group uses as of the last commit, which a busy machine's kernel puts off
        subprocess.run(["btrfs", "filesystem", "sync", str(self.top)], check=True, capture_output=True)

    @property
    def uuid(self) -> str:
        handle = btrfs.open_directory(str(self.top))
        try:
            return str(btrfs.read_file_system_uuid(handle))
        finally:
            os.close(handle)

    @property
    def group(self) -> qgroups.Group:
        found = qgroups.group(self.uuid)
        assert found is not None
        return found

    @property
    def free(self) -> int:
        facts = os.statvfs(self.top)
        return facts.f_bavail * facts.f_frsize


def as_minji(*command: str) -> subprocess.CompletedProcess[str]:
    who = ("setpriv", f"--reuid={MINJI}", f"--regid={MINJI}", "--clear-groups")
    return subprocess.run([*who, *command], check=False, capture_output=True, text=True)


@pytest.fixture
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    root = tmp_path_factory.mktemp("room")
    for path in (root, *root.parents):
        if os.access(path, os.W_OK) and str(path).startswith("/tmp/"):
            path.chmod(path.stat().st_mode | 0o111)  # people get to the disk
    with mounted(root / "image", root / "disk", 1024) as top:
        yield Disk(top, root)

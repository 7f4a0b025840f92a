"""Another host for second copies: another btrfs, and the forced command without the ssh in front of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set, transfer
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.backup_set import Backup
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.copy_stream import Bounds

from tests.support.storage import mounted

PROGRAM = """
import os, sys
sys.path.insert(0, {collections!r})
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set, copy_server
backup_set.now = lambda: os.environ["TEST_NOW"]
os.environ["SSH_ORIGINAL_COMMAND"] = sys.argv[1]
sys.exit(copy_server.main({directory!r}, {arguments}))
"""
QUICK = Bounds(idle=20, total=300)


@dataclass
class Keeper:
    """The host that keeps second copies, as the storage host meets it."""

    point: Path
    arguments: str = "1"

    @property
    def directory(self) -> Path:
        return self.point / "copies"

    @property
    def remote(self) -> transfer.Remote:
        collections = str(Path(transfer.__file__).parents[6])
        program = PROGRAM.format(collections=collections, directory=str(self.directory), arguments=self.arguments)
        return transfer.Remote("nas2", (sys.executable, "-c", program), QUICK)

    def behind(self, script: str) -> transfer.Remote:
        """The same behind a program of the shell: what is asked for is $4, and "$@" the command."""
        return transfer.Remote("nas2", ("sh", "-c", script, "sh", *self.remote.command), QUICK)

    @property
    def sets(self) -> dict[str, Backup]:
        return {one.name: one for one in backup_set.complete(str(self.directory))}


@contextmanager
def keeper(tmp_path: Path, megabytes: int = 256) -> Iterator[Keeper]:
    with mounted(tmp_path / "disk2", tmp_path / "other", megabytes) as point, pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "connect", lambda host: host)  # an order may name `Keeper.remote` for the host
        yield Keeper(point)

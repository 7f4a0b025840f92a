"""A storage host below a directory, for tests of homes."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.homes.directories import (
    Plan,
    Request,
    converge,
)


class Storage:
    """A storage host below a directory: what is mounted there is said by ``mountinfo``."""

    def __init__(self, base: Path) -> None:
        self.root = base / "storage/homes"
        self.root.mkdir(parents=True)
        self.skeleton = base / "skel"
        (self.skeleton / "dir").mkdir(parents=True)
        (self.skeleton / ".bashrc").write_text("hello\n")
        (self.skeleton.parent / "linked").touch()  # nothing of the machine's: who follows the link gives it away
        (self.skeleton / "dir/link").symlink_to(self.skeleton.parent / "linked")
        self.archive = base / "archive"
        self.lock = str(base / "lock")
        point = base / "storage"
        self.mountinfo = f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {point} rw - btrfs /dev/b rw\n"

    def run(self, *users: dict[str, object], check: bool = False, **more: object) -> Plan:
        arguments: dict = {"skeleton": str(self.skeleton), "archive_directory": str(self.archive), **more}
        mountinfo = arguments.pop("mountinfo", self.mountinfo)
        request = Request(arguments.pop("root", str(self.root)), users=users, **arguments)
        return converge(request, check=check, mountinfo=mountinfo, lock=self.lock)

    def home(self, name: str = "minji", uid: int = 20001) -> Path:
        path = self.root / name
        path.mkdir(mode=0o700)
        (path / "data").write_text("precious")
        (path / "-rf *").write_text("x")
        os.chown(path, uid, uid)
        return path


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path)

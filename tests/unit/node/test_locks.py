"""Nothing is read that is then changed, and nothing changed, while another one is at it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import uids
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set, making, restore
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import jobs as work
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import directories
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import access
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import homes as wipe
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import leftovers

from gpuadmin.common.records.backups import BackupHost, BackupOrder, RestoreOrder
from tests.support.storage import FIRST, MINJI, Storage

SECOND = "20261222T010203Z-daily"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every lock is somebody else's; the paths of those that were asked for."""
    asked: list[str] = []

    def held(path: str, seconds: float = 0) -> Any:
        asked.append(path)
        raise NodeError(f"{path} is held")

    for module in (making, access, directories, leftovers, restore, uids, wipe, work):
        monkeypatch.setattr(module, "flocked", held)
    return asked


REMOTE = BackupHost("other", "127.0.0.1", "/k", "/h", port=1)


@pytest.mark.holds(
    "homes are made under the lock",
    "login access is closed under the lock",
    "restore takes the lock",
    "the trash is taken away under the lock",
)
@pytest.mark.parametrize(
    ("changes", "lock"),
    [
        (lambda at: restore.execute(RestoreOrder(at, at, "minji", FIRST)), "restore-minji.lock"),
        (lambda at: leftovers.clear(leftovers.Request(at)), wipe.LOCK),
        (lambda at: directories.converge(directories.Request(at)), wipe.LOCK),
        (lambda at: access.converge([], True, access.Host(root=at)), "closing.lock"),
    ],
)
def test_who_changes_something_takes_its_lock_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: list[str], changes: Callable[[str], object], lock: str
) -> None:
    with pytest.raises(NodeError, match="is held"):
        changes(str(tmp_path))
    assert taken == [lock] or taken[0].endswith("/" + lock)


@pytest.mark.holds("uids are remembered under the lock")
def test_whose_uids_are_remembered_under_a_lock(tmp_path: Path, taken: list[str]) -> None:
    known = uids.keep(str(tmp_path), None, [{"name": "minji", "uid": 20001}], [], check=False, state=str(tmp_path))
    assert "is held" in str(known.problem)
    assert taken


@pytest.mark.holds("backups are made under the lock", "homes go under the lock", "one copy at a time")
@pytest.mark.btrfs
def test_homes_go_and_backups_are_made_under_their_locks(storage: Storage, request: pytest.FixtureRequest) -> None:
    storage.home(*MINJI)
    storage.backup()
    asked: list[str] = request.getfixturevalue("taken")
    copy = BackupOrder(str(storage.directory), name=FIRST, remote=REMOTE)
    for changes in (lambda: storage.wipe(MINJI), lambda: storage.backup(SECOND), lambda: work.copy_backup(copy)):
        with pytest.raises(NodeError, match="is held"):
            changes()
    assert asked == [wipe.LOCK, making.LOCK, work.COPY_LOCK]
    assert storage.names == ["minji"]
    assert backup_set.names(str(storage.directory)) == [FIRST]

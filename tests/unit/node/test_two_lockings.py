"""root/guard.py runs alone, so it locks by itself: it must lock as files.py does, and say the same."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import files
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.root import guard


def by_files(directory: Path) -> None:
    with files.flocked(f"{directory}/root.lock", 0.0):
        pass


def by_guard(directory: Path) -> None:
    lock = guard._lock_file(str(directory))
    try:
        guard._wait(lock, str(directory), 0.0)
    finally:
        os.close(lock)


def refused(directory: Path) -> str:
    """The words with which both refuse a lock in a directory."""
    found = []
    for lock in (by_files, by_guard):
        with pytest.raises((NodeError, guard.RootError)) as error:
            lock(directory)
        found.append(str(error.value))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("lock", [by_files, by_guard])
def test_a_lock_is_its_owners_alone(tmp_path: Path, lock: Callable[[Path], None]) -> None:
    directory = tmp_path / "run"
    directory.mkdir(mode=0o755)
    lock(directory)
    assert [path.stat().st_mode & 0o777 for path in (directory, directory / "root.lock")] == [0o700, 0o600]


@pytest.mark.parametrize("lock", [by_files, by_guard])
def test_a_link_is_no_lock(tmp_path: Path, lock: Callable[[Path], None]) -> None:
    (tmp_path / "root.lock").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        lock(tmp_path)
    assert not (tmp_path / "other").exists()


def test_both_refuse_a_directory_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert refused(tmp_path) == f"{tmp_path} is not root's directory; no lock is kept there"


def test_both_name_who_holds_the_lock(tmp_path: Path) -> None:
    with files.flocked(f"{tmp_path}/root.lock"):
        words = refused(tmp_path)
    assert words.startswith(f"{tmp_path}/root.lock has been held for 0 seconds by ")
    assert str(os.getpid()) in words

"""What has to follow a change follows it, also after a run that was cut off in between."""

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import followed
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.root import operations

from gpuadmin.common.records.files import File, FilesOrder


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(followed, "RUN", str(tmp_path / "run"))
    monkeypatch.setattr(followed, "make_directory", lambda path, mode: Path(path).mkdir(mode, exist_ok=True))
    return tmp_path / "run"


def document(tmp_path: Path, text: str = "a\n", **more: Any) -> FilesOrder:
    return FilesOrder(files=[File(f"{tmp_path}/settings", text)], **more)


def called(tmp_path: Path) -> list[str]:
    path = tmp_path / "called"
    return path.read_text().split() if path.exists() else []


def killed(wanted: FilesOrder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that ends before what has to follow."""
    with monkeypatch.context() as patched:
        patched.setattr(operations, "run_after", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            operations.ensure_files(wanted, False)


@pytest.mark.holds("what has to follow a change follows it after a run that was cut off, too")
def test_a_command_that_failed_is_run_by_the_next_call(tmp_path: Path, run: Path) -> None:
    ready = tmp_path / "ready"
    wanted = document(tmp_path, after=[("sh", "-c", f"test -e {ready} && echo done >>{tmp_path}/called")])
    with pytest.raises(NodeError, match="everything was written, but"):
        operations.ensure_files(wanted, False)
    assert (tmp_path / "settings").read_text() == "a\n"
    ready.touch()
    looked = operations.ensure_files(wanted, True)
    assert (looked.changed, called(tmp_path)) == (True, [])
    answer = operations.ensure_files(wanted, False)
    assert (answer.changed, called(tmp_path)) == (True, ["done"])
    assert answer.operations == [f"finish what an earlier change needs ({tmp_path}/settings)"]
    assert (operations.ensure_files(wanted, False).changed, called(tmp_path)) == (False, ["done"])
    assert list((run / followed.DIRECTORY).iterdir()) == []


@pytest.mark.holds("what has to follow a change follows it after a run that was cut off, too")
def test_a_run_that_was_killed_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = document(tmp_path, after=[("sh", "-c", f"echo done >>{tmp_path}/called")])
    killed(wanted, monkeypatch)
    assert operations.ensure_files(wanted, False).changed
    assert called(tmp_path) == ["done"]


@pytest.mark.holds("what has to follow a change follows it after a run that was cut off, too")
def test_handlers_are_called_until_they_have_followed(tmp_path: Path) -> None:
    first = operations.ensure_files(document(tmp_path, follows="nfs"), False)
    again = operations.ensure_files(document(tmp_path, follows="nfs"), False)
    assert (first.changed, again.changed) == (True, True)
    assert again.more["paths"] == [f"{tmp_path}/settings"], "handlers choose by what was changed"
    operations.ensure_files(FilesOrder(followed=["nfs"]), True)
    assert operations.ensure_files(document(tmp_path, follows="nfs"), False).changed, "a check has followed nothing"
    operations.ensure_files(FilesOrder(followed=["nfs", "other"]), False)
    assert not operations.ensure_files(document(tmp_path, follows="nfs"), False).changed


def test_nothing_is_remembered_of_what_nothing_follows(tmp_path: Path, run: Path) -> None:
    operations.ensure_files(document(tmp_path), False)
    assert not run.exists()


@pytest.mark.parametrize("damage", [b"", b"[", b"5", b"\xff"])
def test_a_damaged_note_fails_no_run(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes
) -> None:  # fmt: skip
    wanted = document(tmp_path, after=[("sh", "-c", f"echo done >>{tmp_path}/called")])
    killed(wanted, monkeypatch)
    (note,) = (run / followed.DIRECTORY).iterdir()
    note.write_bytes(damage)
    assert [operations.ensure_files(wanted, False).changed for _ in range(2)] == [True, False]
    assert called(tmp_path) == ["done"]


def test_what_nothing_follows_any_more_is_no_change_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later version has the same files, and nothing to do after them."""
    killed(document(tmp_path, after=[("true",)]), monkeypatch)
    assert not operations.ensure_files(document(tmp_path), False).changed

"""`make test-changed`: what it runs besides what pytest-testmon chooses, and since when."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.scripts import load

SCRIPT = load("changed")
FILES = {
    "gpuadmin/lock.py": "", "roles/homes/tasks/main.yml": "", "docs/homes.md": "",
    "tests/unit/test_lock.py": "", "tests/unit/node/test_lock.py": "", "tests/unit/test_text.py": "reads homes.md",
    "tests/contract/test_roles.py": "", "tests/e2e/test_homes.py": "reads homes.md",
}  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "tests"),
    [
        ("gpuadmin/lock.py", ["tests/unit/node/test_lock.py", "tests/unit/test_lock.py"]),
        ("gpuadmin/other.py", []),
        ("roles/homes/tasks/main.yml", ["tests/contract/test_roles.py"]),
        ("docs/homes.md", ["tests/contract/test_roles.py", "tests/unit/test_text.py"]),
    ],
)
def test_what_runs_by_name(checkout: Path, name: str, tests: list[str]) -> None:
    assert SCRIPT.by_name([name], checkout) == tests


def test_what_changed_since(checkout: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=checkout, check=True)
    (checkout / ".gitignore").write_text("ignored\n")
    subprocess.run(["git", "add", "-A"], cwd=checkout, check=True)
    stamp = checkout / "ignored"
    stamp.touch()
    for name in [*FILES, ".gitignore"]:
        os.utime(checkout / name, (1, 1))
    assert SCRIPT.changed(checkout, stamp) == []
    (checkout / "new.py").touch()
    for name in ("new.py", "docs/homes.md"):
        os.utime(checkout / name)
    (checkout / "gpuadmin/lock.py").unlink()
    os.utime(stamp, (2, 2))
    assert SCRIPT.changed(checkout, stamp) == ["docs/homes.md", "new.py"]


@pytest.fixture
def run(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, list[tuple[str, ...]]]]:
    """Run the script with these statuses of pytest's; what it returns, and what it called."""
    monkeypatch.setattr(SCRIPT, "ROOT", checkout)
    monkeypatch.setattr(SCRIPT, "DATABASE", checkout / "db")
    monkeypatch.setattr(SCRIPT, "STAMP", checkout / ".cache/tested")
    monkeypatch.setattr(SCRIPT, "changed", lambda _root, _stamp: ["gpuadmin/lock.py"])

    def go(*statuses: int) -> tuple[int, list[tuple[str, ...]]]:
        answers, called = iter(statuses), []

        def called_with(line: tuple[str, ...], **_: Any) -> SimpleNamespace:
            called.append(line)
            return SimpleNamespace(returncode=next(answers))

        monkeypatch.setattr(SCRIPT.subprocess, "run", called_with)
        return SCRIPT.main("not lab"), called

    return go


def test_the_first_time_all_run(checkout: Path, run: Callable[..., Any]) -> None:
    code, (line,) = run(0)
    assert (code, line[-1]) == (0, "tests")
    assert "--testmon" in line
    assert (checkout / ".cache/tested").exists()


def test_then_what_changed(checkout: Path, run: Callable[..., Any]) -> None:
    run(0)
    (checkout / "db").touch()
    code, (watched, named) = run(SCRIPT.NOTHING_TO_DO, 0)
    assert code == 0
    assert "--testmon-forceselect" in watched
    assert "--testmon" not in named
    assert named[-1] == "tests/unit/test_lock.py"


@pytest.mark.parametrize("statuses", [(1, 0), (0, 1), (2, 0)])
def test_what_failed_is_run_again(statuses: tuple[int, ...], checkout: Path, run: Callable[..., Any]) -> None:
    run(0)
    (checkout / "db").touch()
    os.utime(checkout / ".cache/tested", (1, 1))
    assert run(*statuses)[0] == 1
    assert (checkout / ".cache/tested").stat().st_mtime == 1

"""CI runs the tests of the take-over when a change touches it, or what it imports, or when nobody can tell."""

import subprocess
from pathlib import Path

import pytest

from tests.support.scripts import ROOT, load

SCRIPT = load("touched")
NODE = "gpuadmin/collections/ansible_collections/gpuadmin/node/plugins/module_utils"


@pytest.mark.parametrize(
    ("name", "touched"),
    [
        ("gpuadmin/takeover/node/renumbering/work.py", True),
        ("tests/takeover/e2e/test_adopt.py", True),
        (f"{NODE}/files.py", True),
        (f"{NODE}/accounts/converge.py", True),
        ("gpuadmin/session.py", True),
        ("tests/support/by_hand.py", True),
        ("roles/accounts/templates/gpuadmin-renumber.service.j2", True),
        ("roles/node_state/tasks/adoption.yml", True),
        ("playbooks/move-homes.yml", True),
        (f"{NODE}/slurm/gpu.py", False),
        ("gpuadmin/dashboard/app.py", False),
        ("playbooks/provision.yml", False),
        ("docs/renumber.md", False),
    ],
)
def test_what_touches_it(name: str, touched: bool) -> None:
    assert (ROOT / name).is_file()
    assert SCRIPT.touches(ROOT, [name]) is touched


def git(root: Path, *words: str) -> None:
    line = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", *words)
    subprocess.run(line, cwd=root, check=True, capture_output=True)


def commit(root: Path, name: str) -> None:
    (root / name).write_text("")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", name)


def test_what_a_change_is(tmp_path: Path) -> None:
    assert SCRIPT.list_changes(tmp_path) is None, "no checkout"
    git(tmp_path, "init", "-q")
    commit(tmp_path, "one")
    assert SCRIPT.list_changes(tmp_path) is None, "a clone of one commit"
    commit(tmp_path, "two")
    assert SCRIPT.list_changes(tmp_path) == ["two"], "main: the last commit"
    git(tmp_path, "checkout", "-q", "-b", "branch")
    commit(tmp_path, "three")
    commit(tmp_path, "four")
    (tmp_path / "one").write_text("changed")
    assert SCRIPT.list_changes(tmp_path) == ["four", "one", "three"], "a branch: all since it left main"

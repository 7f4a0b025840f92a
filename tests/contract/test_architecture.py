"""The rules of scripts/rooms.toml hold and are checked, and each room says what it is."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scripts import ROOT, load

NODE = Path("gpuadmin/collections/ansible_collections/gpuadmin/node/plugins/module_utils")


def lint(tree: Path) -> tuple[int, str]:
    """Run import-linter on a tree as scripts/lint does; return its exit code and what it printed."""
    own = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [program, "--no-cache", "--no-logo", "--config", "scripts/rooms.toml"],
        cwd=tree, env=own | {"PYTHONPATH": f"{tree}:{tree}/gpuadmin/collections", "COLUMNS": "200"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_the_rules_hold() -> None:
    code, output = lint(ROOT)
    assert code == 0, output


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the rules are about."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "gpuadmin", tree / "gpuadmin", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/rooms.toml", tree / "scripts")
    return tree


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("gpuadmin/config/fields.py", "import gpuadmin.cli"),
        ("gpuadmin/text.py", "def f():\n    from gpuadmin.config import load"),
        ("gpuadmin/semester/facts.py", "import ansible_runner"),
        ("gpuadmin/semester/facts.py", "import subprocess"),
        (f"{NODE}/fields.py", "from gpuadmin import text as of_the_controller"),
        (f"{NODE}/fields.py", "from . import cli"),
        ("gpuadmin/text.py", "import ansible_collections.gpuadmin.node.plugins.module_utils.text"),
    ],
)
def test_an_import_that_breaks_a_rule_is_found(copy: Path, file: str, line: str) -> None:
    path = copy / file
    before = path.read_text()
    try:
        path.write_text(f"{before}\n{line}\n")
        code, output = lint(copy)
    finally:
        path.write_text(before)
    assert code == 1, output
    assert "BROKEN" in output


def test_a_new_room_needs_a_place(copy: Path) -> None:
    path = copy / "gpuadmin/new_room.py"
    path.write_text("")
    try:
        code, output = lint(copy)
    finally:
        path.unlink()
    assert code == 1, output
    assert "new_room" in output


@pytest.mark.parametrize("side", ["controller", "node"])
def test_every_room_says_what_it_is(side: str) -> None:
    architecture = load("pages").architecture
    rooms = [room for layer in architecture.layers(side) for room in layer]
    assert len(rooms) > 10
    assert [room for room in rooms if room != "__main__" and not architecture.meaning(side, room)] == []

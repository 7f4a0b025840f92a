"""A breach of the rules of scripts/rooms.toml is found by `make lint`, and each room says what it is."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scripts import ROOT, load

NODE = Path("gpuadmin/collections/ansible_collections/gpuadmin/node/plugins/module_utils")
MODULE_UTILS = NODE.relative_to("gpuadmin/collections").as_posix().replace("/", ".")


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


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the rules are about."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "gpuadmin", tree / "gpuadmin", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/rooms.toml", tree / "scripts")
    return tree


#: A file, a line that it may not have, and the import that is complained of.
FORBIDDEN = (
    ("gpuadmin/config/fields.py", "import gpuadmin.cli", "config.fields -> gpuadmin.cli"),
    ("gpuadmin/text.py", "def f():\n    from gpuadmin.config import load", "gpuadmin.text -> gpuadmin.config.load"),
    ("gpuadmin/semester/facts.py", "import ansible_runner", "semester.facts -> ansible_runner"),
    ("gpuadmin/semester/facts.py", "import ansible.errors", "semester.facts -> ansible"),
    ("gpuadmin/semester/facts.py", "import subprocess", "semester.facts -> subprocess"),
    (f"{NODE}/fields.py", "from gpuadmin import text as of_the_controller", "module_utils.fields -> gpuadmin.text"),
    (f"{NODE}/fields.py", "from . import cli", "module_utils.fields -> MODULE_UTILS.cli"),
    ("gpuadmin/text.py", "import MODULE_UTILS.text", "gpuadmin.text -> MODULE_UTILS"),
    ("gpuadmin/cli/site.py", "import gpuadmin.takeover.cli", "cli.site -> gpuadmin.takeover.cli"),
    (f"{NODE}/fields.py", "import gpuadmin.takeover.node.cli", "module_utils.fields -> gpuadmin.takeover.node.cli"),
    (
        "gpuadmin/takeover/plans/renumbering.py",
        "from gpuadmin.takeover import node",
        "renumbering -> gpuadmin.takeover.node",
    ),
)


@pytest.fixture(scope="module")
def complaints(copy: Path) -> str:
    """What is said of a tree that has all of these lines: reading a tree takes far longer than judging it."""
    before = {copy / file: (copy / file).read_text() for file, _, _ in FORBIDDEN}
    try:
        for file, line, _ in FORBIDDEN:
            with (copy / file).open("a") as stream:
                stream.write(f"\n{line.replace('MODULE_UTILS', MODULE_UTILS)}\n")
        code, output = lint(copy)
    finally:
        for path, text in before.items():
            path.write_text(text)
    assert code == 1, output
    return output


@pytest.mark.parametrize(("file", "line", "said"), FORBIDDEN)
def test_an_import_that_breaks_a_rule_is_found(complaints: str, file: str, line: str, said: str) -> None:
    broken = complaints.partition("Broken contracts")[2]
    assert re.search(rf"{re.escape(said.replace('MODULE_UTILS', MODULE_UTILS))} \(l\.\d+\)", broken), (file, line)


def test_a_new_room_needs_a_place(copy: Path) -> None:
    path = copy / "gpuadmin/new_room.py"
    path.write_text("")
    try:
        code, output = lint(copy)
    finally:
        path.unlink()
    assert code == 1, output
    assert "new_room" in output


@pytest.mark.parametrize(("side", "least"), [("controller", 10), ("node", 10), ("takeover", 4), ("takeover-node", 5)])
def test_every_room_says_what_it_is(side: str, least: int) -> None:
    architecture = load("pages").architecture
    rooms = [room for layer in architecture.layers(side) for room in layer]
    assert len(rooms) > least
    assert [room for room in rooms if room != "__main__" and not architecture.meaning(side, room)] == []

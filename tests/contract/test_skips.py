"""A test that CI skips and nobody expected to be skipped fails the session; and what needs root says so by its mark."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest
from tests.support import machine
from tests.support.offenders import each_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with this one's conftest."""
    tests = tmp_path / "tests"
    (tests / "support").mkdir(parents=True)
    for name in ("__init__.py", "support/__init__.py"):
        (tests / name).touch()
    for name in ("conftest.py", "support/machine.py"):
        shutil.copy(ROOT / "tests" / name, tests / name)
    marks = ", ".join(f'"{name}"' for name in ("root", "btrfs", "needs"))
    (tmp_path / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\nmarkers = [{marks}]\n")
    return tmp_path


def session(project: Path, body: str, *arguments: str, ci: bool = True) -> tuple[int, str]:
    """Run a file of tests; return pytest's exit code and output."""
    (project / "tests/test_one.py").write_text(f"import pytest\n\n{body}")
    own = {key: value for key, value in os.environ.items() if key not in ("CI", "PYTEST_ADDOPTS")}
    own |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment = {**own, **({"CI": "true"} if ci else {})}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, "tests"],
        cwd=project, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


PASSES = "def test_passes():\n    pass\n\n"
SKIPPED = "@pytest.mark.skip(reason='no such tool')\ndef test_mark():\n    assert False\n\n"
EXPECTED = "@pytest.mark.skip(reason='under systemd a unit does this')\ndef test_unit():\n    assert False\n\n"
INSIDE = "@pytest.fixture\ndef thing():\n    pytest.skip('no such tool')\n\ndef test_fixture(thing):\n    pass\n\n"
MODULE = "pytest.skip('no such tool', allow_module_level=True)\n"
NEEDS = "@pytest.mark.needs('gpuadmin-no-such-tool')\ndef test_needs():\n    pass\n\n"
ROOT_ONLY = "@pytest.mark.skip(reason='needs root: sudo make test-root')\ndef test_root():\n    assert False\n\n"
XFAIL = "@pytest.mark.xfail(reason='known', strict=True)\ndef test_known():\n    assert False\n\n"


@pytest.mark.parametrize("arguments", [(), ("-p", "xdist", "-n", "2")], ids=["one process", "xdist"])
def test_a_skip_that_nobody_expects_fails_ci(project: Path, arguments: tuple[str, ...]) -> None:
    code, output = session(project, PASSES + SKIPPED + INSIDE + NEEDS, *arguments)
    assert code == 1, output
    found = re.findall(r"::(test_\w+): .*no.such.tool", output.partition("skips that CI does not expect")[2])
    assert sorted(found) == ["test_fixture", "test_mark", "test_needs"]


@pytest.mark.parametrize(
    ("body", "ci", "code"),
    [
        (SKIPPED + NEEDS, False, 0),
        (MODULE, True, 1),
        (EXPECTED + ROOT_ONLY + XFAIL, True, 0),
        (EXPECTED + SKIPPED, True, 1),
    ],
    ids=["not CI", "a module", "expected", "one of two"],
)
def test_what_fails_ci(project: Path, body: str, ci: bool, code: int) -> None:
    found, output = session(project, PASSES + body, ci=ci)
    assert found == code, output


@pytest.mark.parametrize("arguments", [(), ("-p", "xdist", "-n", "2")], ids=["one process", "xdist"])
@pytest.mark.parametrize("ci", [True, False])
def test_the_last_line_says_how_many_were_left_out_and_why(project: Path, arguments: tuple[str, ...], ci: bool) -> None:
    body = PASSES + ROOT_ONLY + ROOT_ONLY.replace("test_root()", "test_root_too()") + NEEDS + XFAIL
    _, output = session(project, body, *arguments, ci=ci)
    last = "Left out: 3 of 5 tests: 2 needs root: sudo make test-root; 1 needs gpuadmin-no-such-tool"
    assert output.splitlines()[-1] == last


def test_nothing_is_said_where_nothing_was_left_out(project: Path) -> None:
    assert "Left out" not in session(project, PASSES + XFAIL, ci=False)[1]


def test_a_failure_stays_one(project: Path) -> None:
    code, output = session(project, "def test_fails():\n    assert False\n\n" + SKIPPED)
    assert code == 1, output
    assert "1 failed, 1 skipped" in output


def test_root_is_told_by_the_mark(project: Path) -> None:
    """What mounts is deselected by `not root`, not skipped, whoever runs it."""
    code, output = session(project, PASSES + "@pytest.mark.btrfs\ndef test_mounts():\n    pass\n", "-m", "not root")
    assert code == 0, output
    assert "1 passed, 1 deselected" in output


def test_without_root_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "needs root" in str(machine.lacks(True, []))
    assert machine.lacks(False, ["sh"]) is None
    assert "gpuadmin-no-such-tool" in str(machine.lacks(False, ["sh", "gpuadmin-no-such-tool"]))


def test_what_this_machine_cannot_do_is_skipped_as_it_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container that has root's number and may do nothing, 55 tests failed."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine, "missing_tools", lambda _names: [])
    monkeypatch.setattr(machine.probe, "look", lambda: machine.able("mounts"))
    assert machine.lacks(True, []) == "needs mounts: no mounts here"
    assert machine.lacks(False, ["sh", "loop devices"]) is None
    monkeypatch.setattr(machine.probe, "look", lambda: machine.able("btrfs mounts"))
    assert machine.lacks(True, ["sh", "loop devices"]) is None
    assert machine.lacks(True, [*machine.ROOT_MARKS["btrfs"]]) == "needs btrfs mounts: no btrfs mounts here"


@each_of(sorted((ROOT / "tests").rglob("*.py")))
def test_one_place_decides_what_is_skipped_for_want_of_root_or_tools(path: Path) -> None:
    """Else a mark would not select what is skipped, and CI would not run it."""
    if path in (ROOT / "tests/support/machine.py", Path(__file__)):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            words = ast.unparse(node.func)
            assert not words.endswith(("mark.skipif", "importorskip")) or "geteuid" not in ast.unparse(node), words
            assert not words.endswith("mark.skipif") or "which(" not in ast.unparse(node), "use the mark `needs`"
            assert not any(one.arg == "allow_module_level" for one in node.keywords), "no worker of xdist tells of it"
            assert not words.endswith("importorskip"), "tests run with all that they need"
        if isinstance(node, ast.If) and "geteuid" in ast.unparse(node.test):
            assert "skip" not in ast.unparse(node), "use the mark `root`"


def test_a_place_where_no_program_may_run_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else dozens of tests say "Permission denied"."""
    monkeypatch.setattr(os, "statvfs", lambda _place: SimpleNamespace(f_flag=os.ST_NOEXEC))
    config: Any = SimpleNamespace(workerinput={})
    with pytest.raises(pytest.UsageError, match="is mounted noexec"):
        conftest.pytest_configure(config)

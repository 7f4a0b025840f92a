"""Tests share by tests/support/ alone: no test file is imported, and no other directory's conftest."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.scripts import ROOT

TESTS = ROOT / "tests"


def imported(path: Path) -> Iterator[str]:
    """Given a file, yield the modules of tests/ that it imports, by their dotted names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name}" for name in names] if node.module == "tests" else [node.module or ""]
            assert not node.level, f"{path}: tests are imported by their whole names"
        yield from (name for name in names if name.split(".")[0] == "tests")


def allowed(name: str, path: Path) -> bool:
    """Whether a file may import a module of tests/: what is shared, or the conftest of a directory that it lies in; a
    conftest may hand on another's fixtures."""
    package, _, module = name.rpartition(".")
    above = [".".join(("tests", *path.relative_to(TESTS).parts[:depth])) for depth in range(len(path.parts))]
    return name.startswith("tests.support") or (
        module == "conftest" and (package in above or path.name == "conftest.py")
    )


def wrong(path: Path) -> list[str]:
    return [f"{path.relative_to(ROOT)}: {name}" for name in imported(path) if not allowed(name, path)]


def test_no_test_imports_another() -> None:
    assert [line for path in sorted(TESTS.rglob("*.py")) for line in wrong(path)] == []


def test_one_that_does_is_found(tmp_path: Path) -> None:
    path = tmp_path / "test_new.py"
    path.write_text(
        "from tests.unit.test_text import x\nimport tests.e2e.conftest\nfrom tests.support.sites import y\n"
        "from tests import support\nfrom tests.unit.conftest import Cli\n"
    )
    lies = TESTS / "unit/node/test_new.py"
    found = [name for name in imported(path) if not allowed(name, lies)]
    assert found == ["tests.unit.test_text", "tests.e2e.conftest"]


def test_what_is_shared_is_flat_and_holds_no_tests() -> None:
    """A directory is for what belongs to one module: the sources of the library that stands in for NVML."""
    files = [path for path in (TESTS / "support").rglob("*.py") if path.name != "__init__.py"]
    assert {path.parent.name for path in files} == {"support"}
    assert not [path.name for path in files if path.name.startswith(("test_", "conftest"))]
    kept = {"__init__.py", "conftest.py"}
    beside = [path for path in TESTS.rglob("*.py") if not path.name.startswith("test_") and path.name not in kept]
    assert sorted(beside) == sorted(files), "what is not a test lies there"

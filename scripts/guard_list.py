"""Every guard of the tree: where its mark is, what its file is without it, and which tests hold it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from guard_marks import Mark, MarkError, marks, without

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = "gpuadmin/collections/ansible_collections/gpuadmin/node/plugins"


class ListError(Exception):
    """Nothing can be run; the text says why."""


@dataclass(frozen=True)
class Guard:
    """A mark ``name`` in ``file`` (from the repository's root), ``text`` of the file without it, and its ``tests``.

    ``problem`` says what is wrong with the mark; there is no ``text`` then.
    """

    name: str
    file: str
    line: int
    text: str
    tests: tuple[str, ...]
    problem: str = ""

    @property
    def label(self) -> str:
        return f"{self.file.removeprefix(f'{PLUGINS}/')}: {self.name}"


def mirror(file: str) -> str:
    """Given a file of code, return the test that is named after it, whether or not that exists."""
    path = Path(file)
    if path.is_relative_to(f"{PLUGINS}/module_utils"):
        name, tests = path.relative_to(f"{PLUGINS}/module_utils"), "unit/node"
    elif path.is_relative_to("gpuadmin/takeover"):
        name, tests = path.relative_to("gpuadmin/takeover"), "takeover/unit"
    elif path.is_relative_to("gpuadmin") and not path.is_relative_to(PLUGINS):
        name, tests = path.relative_to("gpuadmin"), "unit"
    else:
        return ""
    return f"tests/{tests}/{name.with_name(f'test_{path.name}')}"


def find_tests(file: str, root: Path = ROOT) -> tuple[str, ...]:
    """Given a file of code, return the test that is named after it, else all tests of its room.

    For example, no test has the name of `backups/wire.py`: `tests/unit/node/backups/test_*.py`, first what mentions it.
    """
    own = root / (mirror(file) or "none")
    if own.is_file():
        return (mirror(file),)
    tests = sorted(own.parent.glob("test_*.py")) if own.name.startswith("test_") else []
    tests.sort(key=lambda test: Path(file).stem not in test.read_text())
    return tuple(str(test.relative_to(root)) for test in tests)


def holders(root: Path = ROOT) -> dict[str, list[str]]:
    """For each name in a `pytest.mark.holds("NAME", …)`: the tests, or files of tests, that bear the mark."""
    found: dict[str, list[str]] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        text = path.read_text()
        if "mark.holds(" in text:
            for test, name in _held(ast.parse(text), str(path.relative_to(root))):
                found.setdefault(name, []).append(test)
    return found


def _held(node: ast.AST, place: str) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and _is_mark(child.func):
            yield from ((place, ast.literal_eval(name)) for name in child.args)
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in child.decorator_list:  # what a test does inside marks nothing
                yield from _held(ast.Expr(decorator), f"{place}::{child.name}")
        else:
            yield from _held(child, f"{place}::{child.name}" if isinstance(child, ast.ClassDef) else place)


def _is_mark(function: ast.expr) -> bool:
    named = isinstance(function, ast.Attribute) and function.attr == "holds"  # most are not: unparse takes long
    return named and ast.unparse(function) == "pytest.mark.holds"


def _guard(mark: Mark, file: str, text: str, tests: tuple[str, ...]) -> Guard:
    try:
        left, problem = without(text, mark), "" if tests else "its room has no tests, and no test names it"
    except MarkError as error:
        left, problem = "", str(error)
    return Guard(mark.name, file, mark.line, left, tests, problem)


def marked(root: Path = ROOT) -> Iterator[tuple[Path, str, list[Mark]]]:
    """Yield every file of the code that has marks, with its text and the marks."""
    for path in sorted((root / "gpuadmin").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not path.is_symlink() and "# guard: " in text:
            yield path, text, marks(text)


def read_guards(root: Path = ROOT) -> list[Guard]:
    """All guards, by file and line. Raises ListError if two have one name."""
    held, found = holders(root), []
    for path, text, its_marks in marked(root):
        file = str(path.relative_to(root))
        own = find_tests(file, root)
        for mark in its_marks:
            tests = tuple(held.get(mark.name) or own)
            found.append(_guard(mark, file, text, tests))
    twice = {one.name for one in found if sum(other.name == one.name for other in found) > 1}
    if twice:
        raise ListError(f"two guards have one name: {', '.join(sorted(twice))}")
    return found

"""Whether a change touches the take-over, or what it imports: `.ci/run` has its tests run then (docs/decisions/0199).

Prints `touched`, or `unknown` where git has no commit to compare with, as in a clone of the last commit alone; else
nothing. A change is what differs from where this branch left main, or, on main itself, from the commit before.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("gpuadmin/takeover", "tests/takeover")
#: Directories that modules are in.
SOURCES = ("", "gpuadmin/collections")
#: Its files among the roles and playbooks.
PLAYS = re.compile(r"(roles|playbooks)/.*\b(adopt|adoption|renumber|move)\b")


def list_changes(root: Path) -> list[str] | None:
    """Return the files of a checkout that a change touches; None where that cannot be known."""
    head = _ask_git(root, "rev-parse", "HEAD")
    left = [_ask_git(root, "merge-base", main, "HEAD") for main in ("origin/main", "main")]
    before = next((one for one in left if one and one != head), "") or _ask_git(root, "rev-parse", "--verify", "HEAD~1")
    return _ask_git(root, "diff", "--name-only", before).splitlines() if before else None


def list_imports(root: Path) -> set[str]:
    """Return the files that those of the take-over and of its tests import, without what these import in turn."""
    paths = [path for place in PLACES for path in (root / place).rglob("*.py")]
    return {name for path in paths for module in _find_modules(path) for name in _find_files(root, module)}


def touches(root: Path, changes: list[str]) -> bool:
    """Given the files of a change, return whether the take-over's tests can tell."""
    imports = list_imports(root)
    return any(name.startswith(PLACES) or PLAYS.match(name) or name in imports for name in changes)


def _find_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module)
            yield from (f"{node.module}.{name.name}" for name in node.names)


def _find_files(root: Path, module: str) -> Iterator[str]:
    at = module.replace(".", "/")
    names = (f"{source}/{at}{end}".lstrip("/") for source in SOURCES for end in (".py", "/__init__.py"))
    yield from (name for name in names if (root / name).is_file())


def _ask_git(root: Path, *words: str) -> str:
    return subprocess.run(("git", *words), cwd=root, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    found = list_changes(ROOT)
    print("unknown" if found is None else "touched" if touches(ROOT, found) else "")

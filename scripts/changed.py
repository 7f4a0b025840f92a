"""`make test-changed`: the tests that a change touches, since the last time that they passed.

pytest-testmon remembers which test ran which lines, and runs those whose lines changed. What it cannot see is run by
name: a test of the same name for code that also runs in another process, and tests/contract/ with whatever names the
file for what is not Python (docs/decisions/0160).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATABASE = ROOT / ".testmondata"
#: When what is there was tested.
STAMP = ROOT / ".cache/tested"
NOTHING_TO_DO = 5  # pytest's status where no test is left
PYTEST = (sys.executable, "-m", "pytest", "-q")


def changed(root: Path, stamp: Path) -> list[str]:
    """Return the files of a checkout that are newer than a file: those that git tracks, and new ones."""
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(listed, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
    since = stamp.stat().st_mtime
    return sorted({name for name in names if (root / name).is_file() and (root / name).stat().st_mtime > since})


def by_name(names: Iterable[str], root: Path) -> list[str]:
    """Given changed files, return the test files that run whatever pytest-testmon says."""
    tests = {path.relative_to(root).as_posix(): path for path in sorted((root / "tests").rglob("test_*.py"))}
    quick = {name: path for name, path in tests.items() if "/e2e/" not in name}
    found: set[str] = set()
    for changed_file in map(Path, names):
        if changed_file.suffix == ".py":
            found |= {name for name, path in quick.items() if path.name == f"test_{changed_file.stem}.py"}
        else:
            contracts = {name for name in quick if name.startswith("tests/contract/")}
            found |= contracts | {name for name, path in quick.items() if changed_file.name in path.read_text("utf-8")}
    return sorted(found)


def main(marks: str, *more: str) -> int:
    """Run them. `marks`: pytest's -m; `more`: further options of pytest's. Returns the exit status."""
    STAMP.parent.mkdir(exist_ok=True)
    begun = STAMP.with_name("tested.new")
    begun.touch()  # what is changed while they run is not tested
    first = not (DATABASE.exists() and STAMP.exists())
    if first:
        print(
            "The first time all tests run, which takes as long as make test-fast, and half as long again.", flush=True
        )
    named = [] if first else by_name(changed(ROOT, STAMP), ROOT)
    watched = ("--testmon", "--testmon-forceselect", *(("-n", "auto", "--dist", "loadfile") if first else ()))
    lines = [(*PYTEST, *watched, "-m", marks, *more, "tests")]
    if named:
        lines.append((*PYTEST, "-n", "auto", "--dist", "loadfile", "-m", marks, *more, *named))
    ended = [subprocess.run(line, cwd=ROOT, check=False).returncode for line in lines]
    if any(code not in (0, NOTHING_TO_DO) for code in ended):
        return 1
    begun.replace(STAMP)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

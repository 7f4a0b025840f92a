"""Tests that run in a copy of the tree, and what came of them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from guard_list import ListError

REPORT = ".guard.xml"
RUNNING: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True)
class Outcome:
    """What pytest did: its exit code (None: past its limit), counts of tests, ``seconds``, the end of ``output``."""

    code: int | None
    passed: int
    skipped: int
    red: int
    seconds: float
    output: str


def copy_tree(root: Path, place: Path) -> None:
    """Copy what git tracks, and what it would track (uncommitted work), to an empty directory."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True,
    ).stdout.decode()  # fmt: skip
    for name in set(filter(None, listed.split("\0"))):
        source, target = root / name, place / name
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)


def environment(place: Path) -> dict[str, str]:
    """The environment in which tests, and the programs that they start, import the copy in ``place``."""
    own = {key: value for key, value in os.environ.items() if key not in ("GPUADMIN_SITE", "PYTEST_ADDOPTS")}
    collections = place / "gpuadmin" / "collections"
    return own | {
        "PYTHONPATH": str(place),
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_HOME": str(place / ".ansible"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def check_isolation(place: Path) -> None:
    """Raise ListError unless a program that starts elsewhere imports gpuadmin from the copy in ``place``."""
    done = subprocess.run(
        [sys.executable, "-c", "import gpuadmin; print(gpuadmin.__file__)"],
        cwd="/", env=environment(place), check=True, capture_output=True, text=True,
    )  # fmt: skip
    if not Path(done.stdout.strip()).resolve().is_relative_to(place.resolve()):
        raise ListError(f"tests would import {done.stdout.strip()}, not the copy in {place}")


def run_tests(place: Path, tests: Iterable[str], limit: float, *, all_of_them: bool = False) -> Outcome:
    """Run tests in a copy of the tree, for at most ``limit`` seconds; the first red one ends it, or none does."""
    report = place / REPORT
    command = (
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", "-o", "junit_family=xunit1",
        f"--junitxml={report}", *(() if all_of_them else ("-x",)), *tests,
    )  # fmt: skip
    log = place / ".guard.log"
    begun = time.monotonic()
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, cwd=place, env=environment(place), stdin=subprocess.DEVNULL, stdout=stream,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        RUNNING.add(process)
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
            _end(process)
        finally:
            RUNNING.discard(process)
    output = log.read_text(errors="replace")
    return Outcome(code, *_counts(report), time.monotonic() - begun, "\n".join(output.splitlines()[-25:]))


def _end(process: subprocess.Popen[bytes]) -> None:
    """First as Ctrl-C does, so that fixtures unmount what they mounted; then for good, with all that it started."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(30)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _counts(report: Path) -> tuple[int, int, int]:
    """(passed, skipped, red) of a JUnit report; zeros without one."""
    try:
        suite = ElementTree.parse(report).getroot().find("testsuite")
    except (OSError, ElementTree.ParseError):
        suite = None
    if suite is None:
        return 0, 0, 0
    total, skipped, failures, errors = (int(suite.get(key, "0")) for key in ("tests", "skipped", "failures", "errors"))
    return max(total - skipped - failures - errors, 0), skipped, failures + errors


def outcomes_of(report: Path, tests: Sequence[str]) -> dict[str, Outcome]:
    """Given the JUnit report of one run of many tests, return what came of each that can be judged by it."""
    try:
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return {}
    found = {}
    for test in tests:
        file, _, name = test.partition("::")
        own = [case for case in cases if case.get("file") == file and (not name or name in _names(case))]
        bad = sum(1 for case in own if {child.tag for child in case} & {"failure", "error"})
        skipped = sum(1 for case in own if case.find("skipped") is not None)
        if own and not bad:
            seconds = sum(float(case.get("time", "0")) for case in own)
            found[test] = Outcome(0, len(own) - skipped, skipped, 0, seconds, "")
    return found


def _names(case: ElementTree.Element) -> tuple[str, str]:
    """A test's name with its parameters, and without."""
    whole = case.get("name", "")
    return whole, whole.partition("[")[0]

"""What a test needs of the machine that it runs on: its marks say it, and this is the one place that skips for it.

In CI every skip that `EXPECTED` does not list fails the session: a test that never runs proves nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from gpuadmin.lab import probe
from gpuadmin.lab.programs import search_path

#: Marks whose tests need root, and the programs that they need besides.
ROOT_MARKS: Mapping[str, tuple[str, ...]] = {
    "btrfs": ("btrfs", "mkfs.btrfs", "zstd"),
    "scale": ("mmdebstrap",),
    "hostile": (),
}

#: Reasons (a pattern each) for which a test may be skipped in CI, and why that is not a loss.
EXPECTED: Mapping[str, str] = {
    "under systemd a unit does this": "where systemd runs, the unit is tested on the lab; CI of a container has none",
    "User Mode Linux cannot set": "it is older than the processor (AMX); other machines run the test",
}


def marked(item: pytest.Item) -> None:
    """Given a test, add the mark `root` where another implies it, and a skip where this machine lacks something."""
    kinds = {mark.name for mark in item.iter_markers()}
    if kinds & set(ROOT_MARKS):
        item.add_marker(pytest.mark.root)
        kinds.add("root")
    programs = [name for kind in ROOT_MARKS if kind in kinds for name in ROOT_MARKS[kind]]
    programs += [str(name) for mark in item.iter_markers("needs") for name in mark.args]
    lacking = lacks("root" in kinds, programs)
    if lacking:
        item.add_marker(pytest.mark.skip(reason=lacking))


def lacks(root: bool, programs: list[str]) -> str | None:
    """What this machine lacks for a test, in words, or None."""
    if root and os.geteuid() != 0:
        return "needs root: sudo make test-root"
    missing = [name for name in programs if shutil.which(name, path=search_path()) is None]
    return f"needs {', '.join(missing)}" if missing else None


def cannot_mount(error: subprocess.CalledProcessError) -> NoReturn:
    """Skip a test whose disk this machine's kernel did not mount."""
    pytest.skip(f"this machine cannot mount btrfs: {error.stderr!r}")


def in_place(test: Callable[..., object]) -> Callable[..., object]:
    """Mark a test of work that a systemd unit does wherever systemd runs: as root, and without systemd."""
    skip = pytest.mark.skipif(Path("/run/systemd/system").is_dir(), reason="under systemd a unit does this")
    return pytest.mark.root(skip(test))


def able(*lacking: str, memory: int = 1 << 40, space: int = 1 << 40, unwritable: str = "") -> probe.Machine:
    """A machine that can do everything but what is named, for tests of what follows from that."""
    unknown = set(lacking) - probe.ATTEMPTS.keys()
    assert not unknown, unknown
    lacks = {name: f"no {name} here" if name in lacking else "" for name in probe.ATTEMPTS}
    return probe.Machine(lacks, memory, space, unwritable, "")


class SkipGuard:
    """Fails the session for every skip that is not expected."""

    def __init__(self) -> None:
        self.unexpected: list[tuple[str, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._note(report.nodeid, report.longrepr)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._note(report.nodeid, report.longrepr)

    def _note(self, test: str, why: object) -> None:
        reason = str(why[2] if isinstance(why, tuple) else why).removeprefix("Skipped: ")
        if not any(re.search(pattern, reason) for pattern in EXPECTED):
            self.unexpected.append((test, reason))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unexpected and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.unexpected:
            terminalreporter.section("skips that CI does not expect (tests/support/machine.py)", red=True)
            for test, reason in self.unexpected:
                terminalreporter.line(f"{test}: {reason}", red=True)

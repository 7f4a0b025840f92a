"""What a test needs of the machine that it runs on: its marks say it, and this is the one place that skips for it.

In CI every skip that `EXPECTED` does not list fails the session: a test that never runs proves nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from gpuadmin.lab import probe
from gpuadmin.lab.programs import missing_tools

NEEDS_ROOT = "needs root: sudo make test-root"
#: Marks whose tests need root, and the programs and abilities (probe.ATTEMPTS) that they need besides.
ROOT_MARKS: Mapping[str, tuple[str, ...]] = {
    "btrfs": ("btrfs", "mkfs.btrfs", "zstd", "btrfs mounts"),
    "scale": ("mmdebstrap",),
    "hostile": (),
}

#: Reasons (a pattern each) for which a test may be skipped in CI, and why that is not a loss.
EXPECTED: dict[str, str] = {
    "under systemd a unit does this": "where systemd runs, the unit is tested on the lab; CI of a container has none",
    f"^{NEEDS_ROOT}$": "`make test-root` runs them, which CI does next",
    "User Mode Linux cannot set": "it is older than the processor (AMX); other machines run the test",
}
if probe.is_ubuntu():
    EXPECTED |= {r"^needs (chromium|linux\.uml)$": "its archive has neither; on Debian `make test` asks for both"}


def marked(item: pytest.Item) -> None:
    """Given a test, add the mark `root` where another implies it, and a skip where this machine lacks something."""
    kinds = {mark.name for mark in item.iter_markers()}
    if kinds & set(ROOT_MARKS):
        item.add_marker(pytest.mark.root)
        kinds.add("root")
    needed = [name for kind in ROOT_MARKS if kind in kinds for name in ROOT_MARKS[kind]]
    needed += [str(name) for mark in item.iter_markers("needs") for name in mark.args]
    lacking = lacks("root" in kinds, needed)
    if lacking:
        item.add_marker(pytest.mark.skip(reason=lacking))


def lacks(root: bool, needed: list[str]) -> str | None:
    """What this machine lacks for a test, in words, or None. `needed`: programs, and abilities that are tried here."""
    if root and os.geteuid() != 0:
        return NEEDS_ROOT
    # a container's root may mount nothing, nor trace, nor make a file immutable: its number is not root
    needed = ["mounts", *needed] if root else needed
    missing = missing_tools(name for name in needed if name not in probe.ATTEMPTS)
    if missing:
        return f"needs {', '.join(missing)}"
    lacking = {name: probe.look().lacks[name] for name in needed if name in probe.ATTEMPTS}
    return next((f"needs {name}: {why}" for name, why in lacking.items() if why), None)


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


class Skips:
    """Says at the end how many tests were left out and why; in CI a skip that is not expected fails the session."""

    def __init__(self, ci: bool) -> None:
        self.ci = ci
        self.found: list[tuple[str, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._note(report.nodeid, report.longrepr)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._note(report.nodeid, report.longrepr)

    def _note(self, test: str, why: object) -> None:
        self.found.append((test, str(why[2] if isinstance(why, tuple) else why).removeprefix("Skipped: ")))

    @property
    def unexpected(self) -> list[tuple[str, str]]:
        return [one for one in self.found if self.ci and not any(re.search(pattern, one[1]) for pattern in EXPECTED)]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        if self.unexpected and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        result = yield  # pytest's own summary
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        if terminal and self.found:
            ran = sum(len(terminal.stats.get(kind, ())) for kind in ("passed", "failed", "error", "xfailed", "xpassed"))
            terminal.write_line(self.last_line(ran))
        return result

    def last_line(self, ran: int) -> str:
        """Given how many tests ran, return how many did not, by their reasons."""
        reasons = Counter(why for _, why in self.found).most_common()
        words = "; ".join(f"{count:,} {why}" for why, count in reasons)
        return f"Left out: {len(self.found):,} of {len(self.found) + ran:,} tests: {words}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.unexpected:
            terminalreporter.section("skips that CI does not expect (tests/support/machine.py)", red=True)
            for test, reason in self.unexpected:
                terminalreporter.line(f"{test}: {reason}", red=True)


def in_repository() -> dict[str, str]:
    """The environment of a Python that finds the node's code here."""
    above = Path(__file__).parents[2]
    return {**os.environ, "PYTHONPATH": f"{above}:{above}/gpuadmin/collections"}

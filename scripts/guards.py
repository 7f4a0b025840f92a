"""Take each guard that is marked in the code out of it, one at a time, and expect its tests to fail.

Each gets a copy of the tree of its own; its tests run there, as `python -m pytest`, and import that copy.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from guard_list import ROOT, Guard, ListError, read_guards
from guard_runs import REPORT, RUNNING, Outcome, check_isolation, copy_tree, outcomes_of, run_tests

SHORTEST_LIMIT = 120.0  # seconds; a guard's tests may take ten times what they take with it


@dataclass(frozen=True)
class Verdict:
    """``kind``: killed, survived or broken (mark or tests are wrong). ``why`` says more, where there is more."""

    guard: Guard
    kind: str
    why: str
    seconds: float
    output: str = ""


def judge(guard: Guard, outcome: Outcome) -> Verdict:
    """Given what the tests did without a guard, say whether they hold it."""
    if outcome.code is None:
        return Verdict(guard, "killed", f"its tests hung for {outcome.seconds:.0f} s", outcome.seconds)
    if outcome.code == 1 and outcome.red:
        return Verdict(guard, "killed", "", outcome.seconds)
    if outcome.code == 0:
        why = f"{outcome.passed} tests stay green" + (f", {outcome.skipped} skipped" if outcome.skipped else "")
        return Verdict(guard, "survived", why, outcome.seconds)
    return Verdict(guard, "broken", f"pytest ended with {outcome.code}", outcome.seconds, outcome.output)


class Trees:
    """Copies of the tree, one for each run, and the tests that are known to be green."""

    def __init__(self, directory: Path, root: Path = ROOT) -> None:
        self.directory = directory
        self.ending = threading.Event()  # somebody has interrupted: nothing more is begun
        self.pristine = directory / "pristine"
        self.pristine.mkdir()
        copy_tree(root, self.pristine)
        check_isolation(self.pristine)

    def copy(self) -> Path:
        # a directory of its own, in which no earlier Python can have compiled anything
        place = Path(tempfile.mkdtemp(prefix="tree-", dir=self.directory))
        shutil.copytree(self.pristine, place, symlinks=True, dirs_exist_ok=True)
        return place

    def green(self, tests: Sequence[str]) -> dict[str, Outcome]:
        """Run test paths with all guards, together; what is not green then once more by itself."""
        found: dict[str, Outcome] = {}
        together = True
        while not self.ending.is_set() and (left := [test for test in tests if test not in found]):
            place = self.copy()
            try:
                chosen = left if together else left[:1]
                outcome = run_tests(place, chosen, 3600, all_of_them=True)
                found |= outcomes_of(place / REPORT, chosen) if together else {left[0]: outcome}
            finally:
                shutil.rmtree(place, ignore_errors=True)
            together = False
        return found

    def kill(self, guard: Guard, limit: float) -> Verdict:
        """Take a guard out and run its tests."""
        place = self.copy()
        try:
            (place / guard.file).write_text(guard.text, encoding="utf-8")
            return judge(guard, run_tests(place, guard.tests, limit))
        finally:
            shutil.rmtree(place, ignore_errors=True)


def not_green(outcome: Outcome) -> str:
    """Why a test path is not a base to judge a guard by, or ''."""
    if outcome.code == 0 and outcome.passed:
        return ""
    return "passes no test" if outcome.code == 0 else f"is not green without it (pytest ended with {outcome.code})"


def chosen(guards: Sequence[Guard], words: Sequence[str]) -> list[Guard]:
    """The guards whose file or name has one of the words; all of them without words."""
    return [one for one in guards if not words or any(word.lower() in one.label.lower() for word in words)]


def show(verdict: Verdict) -> None:
    more = f" ({verdict.why})" if verdict.why else ""
    print(f"{verdict.kind.upper() if verdict.kind != 'killed' else 'killed':<8} {verdict.seconds:6.1f} s  "
          f"{verdict.guard.label}{more}", flush=True)  # fmt: skip
    if verdict.output:
        print("\n".join(f"    {line}" for line in verdict.output.splitlines()), flush=True)


def run_all(guards: Sequence[Guard], jobs: int) -> list[Verdict]:
    """Judge each guard, several at a time, and show each verdict when it is known."""
    verdicts = []

    def judged(verdict: Verdict) -> None:
        verdicts.append(verdict)
        show(verdict)

    for guard in guards:
        if guard.problem:
            judged(Verdict(guard, "broken", guard.problem, 0.0))
    sound = [guard for guard in guards if not guard.problem]
    base = tempfile.mkdtemp(prefix="gpuadmin-guards-")
    try:
        trees = Trees(Path(base))
        with ThreadPoolExecutor(jobs) as pool, _ending(pool, trees):
            paths = sorted({test for guard in sound for test in guard.tests})
            parts = [paths[len(paths) * part // jobs : len(paths) * (part + 1) // jobs] for part in range(jobs)]
            outcomes = {test: outcome for found in pool.map(trees.green, parts) for test, outcome in found.items()}
            pending = []
            for guard in sound:
                its = {test: outcomes[test] for test in guard.tests}
                passed = any(one.passed for one in its.values())  # some tests of a room may be skipped here
                bad = [(test, why) for test, one in its.items() if (why := not_green(one)) and (one.code or not passed)]
                if bad:
                    test, why = bad[0]
                    judged(Verdict(guard, "broken", f"{test} {why}", 0.0, outcomes[test].output))
                    continue
                limit = max(SHORTEST_LIMIT, 10 * sum(outcomes[test].seconds for test in guard.tests))
                pending.append((guard, limit))
            for verdict in pool.map(lambda pair: trees.kill(*pair), pending):
                judged(verdict)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return verdicts


@contextmanager
def _ending(pool: ThreadPoolExecutor, trees: Trees) -> Iterator[None]:
    """Whoever interrupts leaves no tests at work, and nothing mounted."""
    try:
        yield
    except BaseException:
        trees.ending.set()
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(RUNNING):
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
        raise


def _terminated(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """0: all killed; 1: a guard's removal survived, or its mark is broken; 2: nothing can be run."""
    parser = argparse.ArgumentParser(description="take each guard out of the code, and expect red tests")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only those whose file or name has it")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("-l", "--list", action="store_true", help="say which there are, and run nothing")
    options = parser.parse_args(arguments)
    try:
        guards = chosen(read_guards(ROOT), options.words)
        if not guards:
            raise ListError("there is no such guard")
        if options.list:
            print("\n".join(one.label for one in guards))
            return 0
        signal.signal(signal.SIGTERM, _terminated)
        begun = time.monotonic()
        verdicts = run_all(guards, max(options.jobs, 1))
    except ListError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    left = [one for one in verdicts if one.kind != "killed"]
    for verdict in left:
        print(f"{verdict.kind.upper()} {verdict.guard.label}: {verdict.why}")
    counts = {kind: sum(one.kind == kind for one in verdicts) for kind in ("killed", "survived", "broken")}
    summary = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count or kind != "broken")
    print(f"=== {summary} in {time.monotonic() - begun:.0f} s ===")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())

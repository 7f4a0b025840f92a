"""Take each check of tests/mutants/*.yml out of the code, one at a time, and expect its tests to fail.

Every mutant gets a copy of the tree of its own; its tests run there, as `python -m pytest`, and import that copy.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import yaml

ROOT = Path(__file__).resolve().parents[1]
LISTS = ROOT / "tests" / "mutants"
PLUGINS = "gpuadmin/collections/ansible_collections/gpuadmin/node/plugins"
FIELDS = {"name", "file", "find", "replace", "tests"}
REPORT = ".mutant.xml"
SHORTEST_LIMIT = 120.0  # seconds; a mutant's tests may take ten times what they take without it


RUNNING: set[subprocess.Popen[bytes]] = set()


class ListError(Exception):
    """A list, or an entry of it, is wrong; the text says which and why."""


@dataclass(frozen=True)
class Mutant:
    """One check taken out: ``find`` becomes ``replace`` in ``file`` (from the repository's root), ``tests`` go red."""

    subject: str
    name: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{self.subject}: {self.name}"


@dataclass(frozen=True)
class Outcome:
    """What pytest did: its exit code (None: past its limit), counts of tests, ``seconds``, the end of ``output``."""

    code: int | None
    passed: int
    skipped: int
    red: int
    seconds: float
    output: str


@dataclass(frozen=True)
class Verdict:
    """``kind``: killed, survived or broken (the entry itself is wrong). ``why`` says more, where there is more."""

    mutant: Mutant
    kind: str
    why: str
    seconds: float
    output: str = ""


def located(file: str) -> str:
    """Given an entry's ``file``, return its path from the repository's root."""
    return f"{PLUGINS}/{file}" if file.startswith(("module_utils/", "modules/")) else file


def read_list(path: Path) -> list[Mutant]:
    """Given a list, return its mutants. Raises ListError for what is no entry."""
    entries = yaml.safe_load(path.read_text()) or []
    if not isinstance(entries, list):
        raise ListError(f"{path.name}: not a list")
    found = []
    for entry in entries:
        if not isinstance(entry, dict) or set(entry) != FIELDS or not isinstance(entry["tests"], list):
            raise ListError(f"{path.name}: an entry has {', '.join(sorted(FIELDS))} and nothing else: {entry}")
        texts = [str(entry[key]) for key in ("name", "file", "find", "replace")]
        name, file, find, replace = texts
        found.append(Mutant(path.stem, name, located(file), find, replace, tuple(map(str, entry["tests"]))))
    return found


def read_lists(directory: Path = LISTS) -> list[Mutant]:
    """All mutants of all lists, by subject."""
    return [mutant for path in sorted(directory.glob("*.yml")) for mutant in read_list(path)]


def problems(mutant: Mutant, root: Path = ROOT) -> list[str]:
    """What is wrong with an entry: nothing is run for it."""
    found = []
    source = root / mutant.file
    if not source.is_file():
        found.append(f"there is no {mutant.file}")
    else:
        count = source.read_text().count(mutant.find)
        if count != 1:
            found.append(f"`find` occurs {count} times in {mutant.file}")
        elif mutant.file.endswith(".py"):
            try:
                compile(mutated(mutant, source.read_text()), mutant.file, "exec")
            except SyntaxError as error:
                found.append(f"`replace` is no Python there: {error}")
    if mutant.find == mutant.replace:
        found.append("`replace` is `find`")
    if not mutant.tests:
        found.append("no tests are named")
    for test in mutant.tests:
        file, _, name = test.partition("::")
        if not (root / file).exists():
            found.append(f"there is no {file}")
        elif name and f"def {name.rpartition('::')[2].partition('[')[0]}(" not in (root / file).read_text():
            found.append(f"there is no {name} in {file}")
    return found


def mutated(mutant: Mutant, text: str) -> str:
    """Given the file's text, return it without the check."""
    return text.replace(mutant.find, mutant.replace, 1)


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
    log = place / ".mutant.log"
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


def judge(mutant: Mutant, outcome: Outcome) -> Verdict:
    """Given what its tests did, say what became of a mutant."""
    if outcome.code is None:
        return Verdict(mutant, "killed", f"its tests hung for {outcome.seconds:.0f} s", outcome.seconds)
    if outcome.code == 1 and outcome.red:
        return Verdict(mutant, "killed", "", outcome.seconds)
    if outcome.code == 0:
        why = f"{outcome.passed} tests stay green" + (f", {outcome.skipped} skipped" if outcome.skipped else "")
        return Verdict(mutant, "survived", why, outcome.seconds)
    return Verdict(mutant, "broken", f"pytest ended with {outcome.code}", outcome.seconds, outcome.output)


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
        # a directory of its own, with no path in it that a Python of before could have compiled
        place = Path(tempfile.mkdtemp(prefix="tree-", dir=self.directory))
        shutil.copytree(self.pristine, place, symlinks=True, dirs_exist_ok=True)
        return place

    def green(self, tests: Sequence[str]) -> dict[str, Outcome]:
        """Run test paths without any mutation, together; what is not green then once more by itself."""
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

    def kill(self, mutant: Mutant, limit: float) -> Verdict:
        """Take the check out and run its tests."""
        place = self.copy()
        try:
            source = place / mutant.file
            source.write_text(mutated(mutant, source.read_text()))
            return judge(mutant, run_tests(place, mutant.tests, limit))
        finally:
            shutil.rmtree(place, ignore_errors=True)


def not_green(outcome: Outcome) -> str:
    """Why a test path is no base to judge a mutant by, or ''."""
    if outcome.code == 0 and outcome.passed:
        return ""
    return "passes no test" if outcome.code == 0 else f"is not green without it (pytest ended with {outcome.code})"


def chosen(mutants: Sequence[Mutant], words: Sequence[str]) -> list[Mutant]:
    """The mutants whose label has one of the words; all of them without words."""
    return [one for one in mutants if not words or any(word.lower() in one.label.lower() for word in words)]


def show(verdict: Verdict) -> None:
    more = f" ({verdict.why})" if verdict.why else ""
    print(f"{verdict.kind.upper() if verdict.kind != 'killed' else 'killed':<8} {verdict.seconds:6.1f} s  "
          f"{verdict.mutant.label}{more}", flush=True)  # fmt: skip
    if verdict.output:
        print("\n".join(f"    {line}" for line in verdict.output.splitlines()), flush=True)


def run_all(mutants: Sequence[Mutant], jobs: int, announce: Callable[[Verdict], None] = show) -> list[Verdict]:
    """Judge each mutant, several at a time, and announce each verdict when it is known."""
    verdicts = []

    def judged(verdict: Verdict) -> None:
        verdicts.append(verdict)
        announce(verdict)

    for mutant in mutants:
        for problem in problems(mutant):
            judged(Verdict(mutant, "broken", problem, 0.0))
    sound = [mutant for mutant in mutants if not problems(mutant)]
    base = tempfile.mkdtemp(prefix="gpuadmin-mutants-")
    try:
        trees = Trees(Path(base))
        with ThreadPoolExecutor(jobs) as pool, _ending(pool, trees):
            paths = sorted({test for mutant in sound for test in mutant.tests})
            parts = [paths[len(paths) * part // jobs : len(paths) * (part + 1) // jobs] for part in range(jobs)]
            outcomes = {test: outcome for found in pool.map(trees.green, parts) for test, outcome in found.items()}
            pending = []
            for mutant in sound:
                bad = [(test, why) for test in mutant.tests if (why := not_green(outcomes[test]))]
                if bad:
                    test, why = bad[0]
                    judged(Verdict(mutant, "broken", f"{test} {why}", 0.0, outcomes[test].output))
                    continue
                limit = max(SHORTEST_LIMIT, 10 * sum(outcomes[test].seconds for test in mutant.tests))
                pending.append((mutant, limit))
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
    """0: all killed; 1: a mutant survived or an entry is broken; 2: the lists cannot be used."""
    parser = argparse.ArgumentParser(description="take each check that guards data out, and expect red tests")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only those whose subject or name has it")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("-l", "--list", action="store_true", help="say which there are, and run nothing")
    options = parser.parse_args(arguments)
    try:
        mutants = chosen(read_lists(), options.words)
        if not mutants:
            raise ListError("there is no such mutant")
        if options.list:
            print("\n".join(one.label for one in mutants))
            return 0
        signal.signal(signal.SIGTERM, _terminated)
        begun = time.monotonic()
        verdicts = run_all(mutants, max(options.jobs, 1))
    except ListError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    left = [one for one in verdicts if one.kind != "killed"]
    for verdict in left:
        print(f"{verdict.kind.upper()} {verdict.mutant.label}: {verdict.why}")
    counts = {kind: sum(one.kind == kind for one in verdicts) for kind in ("killed", "survived", "broken")}
    summary = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count or kind != "broken")
    print(f"=== {summary} in {time.monotonic() - begun:.0f} s ===")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())

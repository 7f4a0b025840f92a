"""`make benchmarks`: what is kept of a benchmark for the page, and what is not."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scripts import ROOT, load

EARLIER = {"startup": {"output": "earlier"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The runner, with figures of an earlier run, and no benchmarks."""
    made = tmp_path / "benchmarks"
    made.mkdir()
    for name in ("run.py", "_checkout.py"):
        text = (ROOT / "benchmarks" / name).read_text(encoding="utf-8")
        (made / name).write_text(text.replace("seconds: float = 5.0", "seconds: float = 0.1"), encoding="utf-8")
    (made / "figures.json").write_text(json.dumps(EARLIER))
    return made


def run(folder: Path, *names: str) -> tuple[int, str]:
    done = subprocess.run((sys.executable, folder / "run.py", *names), check=False, capture_output=True, text=True)
    return done.returncode, done.stderr


@pytest.mark.parametrize(("ends", "missed"), [("0", False), ("1", True)])
def test_what_it_printed_is_kept_with_what_the_machine_was_doing(folder: Path, ends: str, missed: bool) -> None:
    (folder / "startup.py").write_text(f"import sys; print('47 ms'); sys.exit({ends})")
    assert run(folder, "startup")[0] == 0
    found = json.loads((folder / "figures.json").read_text())["startup"]
    assert (found["output"], found["missed"], found["command"]) == ("47 ms", missed, "benchmarks/startup.py")
    assert {"commit", "date", "in_use", "minutes", "processors"} <= found.keys()


@pytest.mark.parametrize("body", ["print('47 ms'); 1 / 0", "raise SystemExit('no such package')", "print('')"])
def test_one_that_broke_leaves_what_was_there(folder: Path, body: str) -> None:
    (folder / "startup.py").write_text(body)
    code, said = run(folder, "startup")
    assert code == 1
    assert "failed: startup" in said
    assert json.loads((folder / "figures.json").read_text()) == EARLIER


def test_a_name_that_is_none_runs_nothing(folder: Path) -> None:
    code, said = run(folder, "startup", "nothing")
    assert code == 2
    assert said.startswith("no benchmark nothing; there is startup, top,")


def test_all_that_it_runs_are_there() -> None:
    text = (ROOT / "benchmarks/run.py").read_text(encoding="utf-8")
    names = [line.strip().split('"')[1] for line in text.splitlines() if line.startswith('    "') and '": "' in line]
    assert names
    assert [name for name in names if not (ROOT / f"benchmarks/{name}.py").exists()] == []


def test_idle_processors_are_read_as_proc_stat_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a disk uses no processor either."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    runner = importlib.import_module("run")
    (tmp_path / "stat").write_text("cpu  100 20 30 4000 500 6 7 0 0 0\ncpu0 1 2 3 4 5 6 7 0 0 0\n")
    assert runner.idle_seconds(tmp_path / "stat") == 4500 / os.sysconf("SC_CLK_TCK")
    assert 0 <= runner.processors_in_use(0.05) <= (os.cpu_count() or 1)


@pytest.mark.parametrize(("in_use", "missed"), [(0.1, False), (0.1, True), (0.6, False)])
def test_the_page_says_what_was_missed_and_what_was_busy(in_use: float, missed: bool) -> None:
    load("pages")
    page = importlib.import_module("pages.benchmarks")
    found = {"command": "x", "commit": "c", "date": "d", "minutes": 1, "processors": 2, "output": "o"}
    text = page._section("startup", {**found, "in_use": in_use, "missed": missed})
    assert ("A promise was missed" in text) is missed
    assert ("The machine was busy" in text) is (in_use > 0.5)

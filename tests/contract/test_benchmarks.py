"""`make benchmarks`: what is kept of a benchmark for the page, and what is not."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scripts import ROOT

EARLIER = {"startup": {"output": "earlier"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The runner, with figures of an earlier run, and no benchmarks."""
    made = tmp_path / "benchmarks"
    made.mkdir()
    for name in ("run.py", "_checkout.py"):
        shutil.copy(ROOT / "benchmarks" / name, made)
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

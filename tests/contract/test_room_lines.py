"""The budget of lines of each room: which room a file counts for, and what `make lint` says of it."""

import subprocess
from pathlib import Path

import pytest

from tests.support.scripts import load

SCRIPT = load("room_lines")
TEXT = '[lines.product]\n"gpuadmin" = 100  # why\n"node/gpus" = 200\n\n[lines.tests]\n"tests" = 300\n'
BUDGETS = {"gpuadmin": 100, "node/gpus": 200, "tests": 300}


@pytest.mark.parametrize(
    ("path", "room"),
    [
        ("gpuadmin/lock.py", "gpuadmin"),
        (SCRIPT.NODE + "gpus/mig.py", "node/gpus"),
        ("gpuadmin_other/lock.py", None),
        ("tests/unit/test_lock.py", "tests"),
        ("docs/index.md", None),
    ],
)
def test_a_file_counts_for_the_room_with_the_longest_name(path: str, room: str | None) -> None:
    assert SCRIPT.find_room(path, BUDGETS) == room


def test_lines_are_those_of_files_that_git_has_or_would_have(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name, text in {
        "gpuadmin/a.py": "1\n2\n",
        "gpuadmin/a.svg": "1\n",
        "tests/b.py": "1\n",
        ".gitignore": "b.py",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert SCRIPT.count_lines(tmp_path, BUDGETS) == {"gpuadmin": 2, "node/gpus": 0, "tests": 0}


@pytest.mark.parametrize(
    ("lines", "words"),
    [(100, None), (101, "1 more than its budget"), (100 - SCRIPT.SLACK, None), (99 - SCRIPT.SLACK, "--lower")],
)
def test_a_room_that_outgrew_its_budget_is_named_and_so_is_one_that_shrank(lines: int, words: str | None) -> None:
    faults = SCRIPT.find_faults(BUDGETS, {**BUDGETS, "gpuadmin": lines})
    assert len(faults) == (words is not None)
    assert all(words in fault and fault.startswith("gpuadmin has") for fault in faults)


def test_budgets_follow_downwards_alone_and_keep_their_reasons() -> None:
    lowered = SCRIPT.lower_budgets(TEXT, {"gpuadmin": 90, "node/gpus": 250, "tests": 300})
    assert SCRIPT.read_budgets(lowered) == {**BUDGETS, "gpuadmin": 90}
    assert '"gpuadmin" = 90  # why\n' in lowered

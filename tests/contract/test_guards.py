"""The lists of mutants fit the tree, and their runner tells a killed mutant from one that survived."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.contract.scripts import load

ROOT = Path(__file__).resolve().parents[2]
lists, runs, runner = (load(name) for name in ("mutant_lists", "mutant_runs", "mutants"))
MUTANTS = lists.read_lists()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.label)
def test_what_is_taken_out_is_there_once_and_its_tests_exist(mutant: object) -> None:
    """So that a list cannot fall behind the code unnoticed."""
    assert lists.problems(mutant) == []


def test_no_two_have_one_name() -> None:
    labels = [mutant.label for mutant in MUTANTS]
    assert labels, "there are lists"
    assert len(set(labels)) == len(labels)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a tree with one check, and tests of every kind."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # it starts sooner
    place = tmp_path / "tree"
    (place / "gpuadmin").mkdir(parents=True)
    (place / "gpuadmin/__init__.py").write_text(
        "def safe(value):\n    if value < 0:\n        return False\n    return True\n"
    )
    tests = {
        "guarded": "def test_it():\n    assert not safe(-1)\n",
        "vain": "def test_it():\n    assert safe(1)\n",
        "skipped": "import pytest\n\n@pytest.mark.skip(reason='x')\ndef test_it():\n    assert not safe(-1)\n",
        "broken": "import nothing_of_this_name\n\ndef test_it():\n    assert not safe(-1)\n",
        "empty": "",
        "hanging": "import time\n\ndef test_it():\n    if safe(-1):\n        time.sleep(60)\n",
        "program": (
            "import subprocess, sys\n\ndef test_it():\n"
            "    line = 'import gpuadmin, sys; sys.exit(gpuadmin.safe(-1))'\n"
            "    assert subprocess.run([sys.executable, '-c', line], cwd='/').returncode == 0\n"
        ),
    }
    for name, text in tests.items():
        (place / f"test_{name}.py").write_text(f"from gpuadmin import safe\n\n{text}" if text else text)
    return place


def mutant(test: str, **more: str) -> object:
    fields = {"subject": "s", "name": "n", "file": "gpuadmin/__init__.py", "find": "if value < 0:", "replace": "if 0:"}
    return lists.Mutant(**{**fields, **more}, tests=(f"test_{test}.py",))


@pytest.mark.parametrize(
    ("test", "kind"),
    [
        ("guarded", "killed"), ("program", "killed"), ("hanging", "killed"), ("vain", "survived"),
        ("skipped", "survived"), ("broken", "broken"), ("empty", "broken"),
    ],
)  # fmt: skip
def test_what_becomes_of_a_mutant(tree: Path, test: str, kind: str) -> None:
    """Killed only by a test that ran and failed; what could not be run kills nothing."""
    runs.check_isolation(tree)
    source = tree / "gpuadmin/__init__.py"
    one = mutant(test)
    assert lists.problems(one, tree) == []
    source.write_text(lists.mutated(one, source.read_text()))
    verdict = runner.judge(one, runs.run_tests(tree, one.tests, 5.0 if test == "hanging" else 60.0))
    assert verdict.kind == kind
    assert ("hung" in verdict.why) == (test == "hanging")


@pytest.mark.parametrize(
    ("test", "green"), [("guarded", True), ("skipped", False), ("broken", False), ("empty", False)]
)
def test_what_is_no_base_to_judge_by(tree: Path, test: str, green: bool) -> None:
    assert (runner.not_green(runs.run_tests(tree, [f"test_{test}.py"], 60.0)) == "") is green


def test_many_that_ran_together_are_told_apart(tree: Path) -> None:
    (tree / "test_many.py").write_text(
        "import pytest\n\ndef test_one(): pass\n\n@pytest.mark.parametrize('n', (1, 2))\n"
        "def test_two(n): assert n == 1\n\ndef test_three(): pass\n"
    )
    asked = ["test_guarded.py", "test_many.py::test_one", "test_many.py::test_two", "test_many.py", "test_skipped.py"]
    whole = runs.run_tests(tree, asked, 60.0, all_of_them=True)
    found = runs.outcomes_of(tree / runs.REPORT, asked)
    assert (whole.code, whole.red) == (1, 1)
    assert {test: one.passed for test, one in found.items()} == {
        "test_guarded.py": 1, "test_many.py::test_one": 1, "test_skipped.py": 0,
    }  # fmt: skip
    assert runner.not_green(found["test_skipped.py"])
    assert runs.outcomes_of(tree / "none.xml", asked) == {}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"find": "if nothing:"}, "occurs 0 times"),
        ({"find": "value"}, "occurs 2 times"),
        ({"file": "gpuadmin/none.py"}, "there is no gpuadmin/none.py"),
        ({"replace": "if :"}, "no Python"),
        ({"replace": "if value < 0:"}, "`replace` is `find`"),
    ],
)
def test_an_entry_that_fits_nothing_is_said(tree: Path, more: dict[str, str], words: str) -> None:
    assert any(words in problem for problem in lists.problems(mutant("guarded", **more), tree))


def test_a_test_that_is_not_there_is_said(tree: Path) -> None:
    one = lists.Mutant("s", "n", "gpuadmin/__init__.py", "if value < 0:", "if 0:", ("test_guarded.py::test_other",))
    assert lists.problems(one, tree) == ["there is no test_other in test_guarded.py"]


def test_a_copy_holds_what_is_not_committed_and_nothing_that_git_ignores(tmp_path: Path) -> None:
    root, place = tmp_path / "root", tmp_path / "place"
    root.mkdir()
    place.mkdir()
    for name in ("tracked", "new", "ignored", "gone"):
        (root / name).write_text("1")
    (root / ".gitignore").write_text("ignored\n")
    quiet = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    for line in (("init", "-q"), ("add", "tracked", "gone", ".gitignore")):
        runs.subprocess.run(("git", *line), cwd=root, check=True, env=quiet)
    (root / "gone").unlink()
    (root / "tracked").write_text("2")
    runs.copy_tree(root, place)
    assert sorted(path.name for path in place.iterdir()) == [".gitignore", "new", "tracked"]
    assert (place / "tracked").read_text() == "2"

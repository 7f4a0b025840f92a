"""`make`: -n prints and runs nothing, and `make test` fails when one of its lanes does."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.scripts import ROOT

pytestmark = pytest.mark.needs("make")

#: Stands in for Python and for each script: notes that it was run, and says which lane it is.
STUB = """#!/bin/sh
echo "$0 $*" >>ran
lane=none
case "$0 $*" in
*"--lane virtual tests/e2e/test_lab.py") lane=machines ;;
*"--lane virtual"*) lane=virtual; sleep 0.3 ;;
*"--lane light"*) lane=light; sleep 0.1 ;;
*"not lab"*) lane=fast ;;
*lint*) lane=lint ;;
esac
echo "<$lane>"
[ "$lane" != "$FAILS" ]
"""
LANES = ("lint", "fast", "machines", "light", "virtual")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The Makefile, with an environment that is ready and in which nothing does anything."""
    for name in ("pyproject.toml", "requirements.lock"):
        (tmp_path / name).touch()
    for name in ("scripts/bootstrap", "scripts/lint", "scripts/lock", ".venv/bin/python"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STUB)
        path.chmod(0o755)
    (tmp_path / ".venv/.ready").touch()
    shutil.copy(ROOT / "Makefile", tmp_path)
    return tmp_path


def make(checkout: Path, *words: str, fails: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ("make", *words), cwd=checkout, env={"PATH": "/usr/bin:/bin", "FAILS": fails}, text=True, check=False,
        capture_output=True,
    )  # fmt: skip


def targets() -> list[str]:
    lines = (ROOT / "Makefile").read_text().splitlines()
    return [line.partition(":")[0] for line in lines if " ## " in line and not line.startswith("\t")]


@pytest.mark.parametrize("target", targets())
def test_what_is_only_to_be_printed_is_not_run(target: str, checkout: Path) -> None:
    done = make(checkout, "-n", target)
    assert done.returncode == 0
    assert done.stdout
    assert not (checkout / "ran").exists()


def test_another_system_is_told_what_needs_linux(tmp_path: Path) -> None:
    (tmp_path / "uname").write_text("#!/bin/sh\necho Darwin\n")
    (tmp_path / "uname").chmod(0o755)
    done = subprocess.run(
        (ROOT / "scripts/bootstrap", "system", tmp_path, "demo"), env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        text=True, check=False, capture_output=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "Error: the demo and the tests need Linux")


@pytest.mark.parametrize("fails", ["", *LANES])
def test_one_lane_that_fails_fails_the_test(fails: str, checkout: Path) -> None:
    done = make(checkout, "test", fails=fails)
    assert (done.returncode != 0) is bool(fails)
    said = [line.strip("<>") for line in done.stdout.splitlines() if line.strip("<>") in LANES]
    assert said == list(LANES), "all lanes run to their end, and what was in the background is printed last"
    assert "--lane virtual tests/e2e --ignore tests/e2e/test_lab.py" in (checkout / "ran").read_text()

"""Every role on the lab, by molecule: converge, idempotence, check mode that tells the truth, verify."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuadmin.lab.releases import parse
from tests.support.lab_cluster import GPUADMIN, KEEP, LAB, PATIENCE, RELEASES, REPOSITORY
from tests.support.where import QUICK_SCENARIOS, reason_of, scenarios

pytestmark = pytest.mark.lab
WORK = REPOSITORY / ".cache/molecule"
NAME = f"{LAB}-molecule"
#: What cannot work on a release and is refused before anything is done: scenario → releases, and what is said there.
#: The whole of provision, in `rootless_docker`, measures: molecule's site has a host in the group `monitor`.
REFUSED = {
    "slurm": ({"11", "12", "22.04"}, "which is older than slurm.oldest in gpuadmin.yml (23.11)"),
    **dict.fromkeys(("monitoring", "node_metrics", "rootless_docker"), ({"11"}, "has a node exporter older than 1.3")),
}


def marks_of(scenario: str) -> list[pytest.MarkDecorator]:
    reason = reason_of(scenario)
    slow = [] if scenario in QUICK_SCENARIOS else [pytest.mark.slow]
    return [*slow, pytest.mark.virtual(reason)] if reason else slow


def purge() -> None:
    subprocess.run([GPUADMIN, "lab", "down", "--purge", "--name", NAME], check=False, capture_output=True)
    shutil.rmtree(WORK, ignore_errors=True)


@pytest.fixture(scope="module")
def fresh() -> Iterator[None]:
    """What an earlier session left may be made from another base image: no lab and no state of molecule's is there."""
    if not KEEP:
        purge()
    yield
    if not KEEP:
        purge()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("scenario", [pytest.param(name, marks=marks_of(name)) for name in scenarios()])
def test_role(scenario: str, tmp_path: Path) -> None:
    places = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "gpuadmin/collections"),
        "ANSIBLE_HOME": str(REPOSITORY / ".ansible"),
        "GPUADMIN_TEST_MOLECULE": NAME,
    }
    log = tmp_path / "log"
    with log.open("wb") as sink:
        done = subprocess.run(
            ["molecule", "test", "--scenario-name", scenario, "--destroy", "never", "--report", "--no-command-borders"],
            cwd=REPOSITORY, env={**os.environ, **places}, stdin=subprocess.DEVNULL, stdout=sink,
            stderr=subprocess.STDOUT, timeout=PATIENCE, check=False,
        )  # fmt: skip
    output = log.read_text(errors="replace").splitlines()
    releases, words = REFUSED.get(scenario, (set(), ""))
    if releases & set(parse(RELEASES).values()):
        assert done.returncode != 0
        assert words in " ".join(output)
        assert not [line for line in output if "converge" in line and "Executing" in line]  # check mode comes before it
        return
    assert done.returncode == 0, "\n".join(["…", *output[-100:], f"(all of it: {log})"])

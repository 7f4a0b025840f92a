"""What slurmctld answers about jobs, by job_submit.lua. On the lab Slurm itself asks it (test_queue_attacks.py)."""

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs("lua5.4")
FILE = Path(__file__).resolve().parents[3] / "roles/slurm_controller/files/job_submit.lua"
SLURM = """
slurm = {SUCCESS = 0, ERROR = -1, NO_VAL = 4294967294, NO_VAL16 = 65534, log_user = function() end}
dofile(arg[1])
"""
#: An exception that runs, and a change that changes nothing.
CHANGED = """
local change = {requeue = slurm.NO_VAL16, time_limit = slurm.NO_VAL, min_nodes = slurm.NO_VAL}
local job = {qos = "exception", admin_comment = "exception", job_state = 1}
"""


def lua(script: str) -> str:
    command = ("lua5.4", "-", str(FILE))
    return subprocess.run(command, input=SLURM + script, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ("change.time_limit = 9", False),
        ("change.time_limit = 9; uid = 0", True),
        ("change.time_limit = 9; job.qos = 'people'", False),  # on hold, before it has the QOS
        ("change.time_limit = 9; job.admin_comment = '{}'", False),
        ("change.time_limit = 9; job.qos = 'people'; job.admin_comment = nil", True),
        ("", False),
        ("change.comment = 'open'", True),
        ("change.comment = 'open'; job.job_state = 256 + 1", True),
        ("change.comment = 'open'; job.job_state = 0", False),
        ("change.comment = 'mine'", False),
        ("change.comment = 'open'; change.requeue = 1", False),
        ("change.comment = 'open'; change.time_limit = 9", False),
        ("change.comment = 'open'; change.min_nodes = 2", False),
        ("change.comment = 'open'; change.tres_per_node = 'gres/gpu:8'", False),
        ("change.comment = 'open'; change.qos = 'people'", False),
    ],
)
def test_an_exception_is_changed_by_root_alone(given: str, allowed: bool) -> None:
    """Its own job says, as its person, that its GPUs are open."""
    said = lua(f"{CHANGED} local uid = 20001; {given}; print(slurm_job_modify(change, job, nil, uid))")
    assert said == ("0" if allowed else "-1")


UP, DRAIN = 3, 2
NAMES = ("gpu", "guest", "own-phd", "exception")
PARTITIONS = "{" + ", ".join(f"['{name}'] = {{state_up = {UP}}}" for name in NAMES) + "}"


@pytest.mark.parametrize(
    ("job", "uid", "partition"),
    [
        ("default_account = 'phd'", 20001, "own-phd,guest"),
        ("default_account = 'people'", 20001, "gpu,guest"),
        ("default_account = 'people', account = 'phd'", 20001, "own-phd,guest"),  # Slurm judges whether they are in it
        ("default_account = 'phd', partition = 'gpu'", 20001, "gpu"),
        ("name = 'exception', default_account = 'phd'", 0, "gpu,exception"),
        ("name = 'exception', default_account = 'phd'", 20001, "own-phd,guest"),
    ],
)
def test_where_a_job_runs(job: str, uid: int, partition: str) -> None:
    script = f"local job = {{{job}}}; slurm_job_submit(job, {PARTITIONS}, {uid}); print(job.partition)"
    assert lua(script) == partition
    drained = script.replace(f"['guest'] = {{state_up = {UP}", f"['guest'] = {{state_up = {DRAIN}")
    assert lua(drained) == partition.removesuffix(",guest"), "one that only its jobs keep"


def test_a_group_that_has_no_nodes_any_more_runs_where_nobody_comes_first() -> None:
    """Its partition stays for as long as there are jobs."""
    partitions = PARTITIONS.replace(f"['own-phd'] = {{state_up = {UP}", f"['own-phd'] = {{state_up = {DRAIN}")
    script = (
        f"local job = {{default_account = 'phd'}}; slurm_job_submit(job, {partitions}, 20001); print(job.partition)"
    )
    assert lua(script) == "gpu,guest"


@pytest.mark.parametrize(
    ("uid", "name", "known"), [(0, "exception", "exception"), (20001, "exception", "nil"), (0, "x", "nil")]
)
def test_an_exception_is_known_from_the_beginning(uid: int, name: str, known: str) -> None:
    """And nobody makes one by its name."""
    script = f"local job = {{name = '{name}'}}; print(slurm_job_submit(job, {{}}, {uid}), job.admin_comment)"
    assert lua(script).split() == ["0", known]

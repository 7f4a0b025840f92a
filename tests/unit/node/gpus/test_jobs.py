"""Grants that are jobs': when they have ended, and when they were given more time."""

import subprocess
from collections.abc import Callable, Sequence

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import jobs
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import LATEST, Grant

JOB = Grant("slurm-12", "minji", 20000, ["GPU-a"], 1000, 5000, "Slurm", "job 12", "slurm")
ADMIN = Grant("a1", "jiho", 20001, ["GPU-b"], 1000, 5000, "root@nas")
NOW = 2000.0
STEP = "/system.slice/node1_slurmstepd.scope/job_12/step_0/user/task_0"


def says(code: int, text: str = "", error: str = "") -> Callable[[Sequence[str]], subprocess.CompletedProcess[str]]:
    def answer(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        assert tuple(command[:2]) == ("timeout", "5"), "Slurm's programs may take for ever"
        return subprocess.CompletedProcess(command, code, text, error)

    return answer


def late(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    raise NodeError("no answer")


@pytest.mark.parametrize(
    ("answer", "ended"),
    [
        (says(0, "JOBID\n12\n14\n"), []),
        (says(0, "JOBID\n120\n"), ["slurm-12"]),
        (says(0, "No slurmstepd's found on this node\n"), ["slurm-12"]),
        (says(0, "", "No slurmstepd's found on this node\n"), ["slurm-12"]),
        (says(0, "", "slurm_load_jobs error: 12\n"), []),
        (says(1, "", "No slurmstepd's found on this node\n"), []),
        (says(0, "something that nobody knows\n"), []),
        (says(0), []),
        (says(1, "JOBID\n14\n"), []),
        (says(124), []),
        (late, []),
    ],
)
def test_only_what_slurm_says_has_ended_has_ended(
    answer: Callable[[Sequence[str]], subprocess.CompletedProcess[str]], ended: list[str]
) -> None:
    assert [one.id for one in jobs.ended([JOB, ADMIN], answer, NOW)] == ended


def test_a_job_that_is_about_to_start_is_not_asked_for() -> None:
    assert jobs.ended([JOB], late, JOB.begin + 10) == []


@pytest.mark.holds("an end that Slurm does not say prolongs nothing")
def test_more_time_is_asked_for_shortly_before_the_end() -> None:
    later, commands = "9000", []

    def answer(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return says(0, f"{later}\n")(command)

    assert list(jobs.prolonged([JOB, ADMIN], answer, 4900)) == [
        Grant("slurm-12", "minji", 20000, ["GPU-a"], 1000, 9000, "Slurm", "job 12", "slurm")
    ]
    # local time would have one hour twice when clocks go back
    assert ("SLURM_TIME_FORMAT=%s" in commands[0], len(commands)) == (True, 1)
    assert jobs.prolonged([JOB], answer, 3000) == []
    assert jobs.prolonged([JOB], answer, 5000) == [], "what has ended does not begin again"
    assert jobs.prolonged([JOB], says(1), 4900) == []
    (last,) = jobs.prolonged([JOB], says(0, "253402300799"), 4900)
    assert last.until == LATEST, "a grant may end no later"
    for odd in ("N/A", f"EndTime={later}", f"{later}\n{later}", "2026-10-25T02:30:00", "9" * 5000, "-9"):
        assert jobs.prolonged([JOB], says(0, odd), 4900) == []


@pytest.mark.parametrize(
    ("cgroup", "uid", "now", "gpus"),
    [
        (STEP, 20000, NOW, {"GPU-a"}),
        (STEP, 20001, NOW, set()),
        (STEP, 20000, 5000, set()),
        (STEP.replace("job_12", "job_13"), 20000, NOW, set()),
        (STEP.replace("job_12", "job_120"), 20000, NOW, set()),
        ("/system.slice/hub.service/slurmstepd.scope/job_12", 20000, NOW, set()),
        ("/user.slice/user-20000.slice/node1_slurmstepd.scope/job_12", 20000, NOW, set()),
    ],
)
def test_a_job_opens_its_own(cgroup: str, uid: int, now: float, gpus: set[str]) -> None:
    assert jobs.granted(cgroup, uid, [JOB, ADMIN], now) == gpus

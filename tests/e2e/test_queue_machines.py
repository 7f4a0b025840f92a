"""The queue on virtual machines: a job that takes more memory than it asked for, and a power cut under a job.

Light hosts limit no memory of jobs, and lose nothing when their power is cut. A lab of its own, of one node, which has
one processor and so one GPU that can be held (gpuadmin/lab/light/gpus.py).
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.gated_cluster import NODE, make_gpu, opened
from tests.support.lab_cluster import LAB, REPOSITORY, Cluster
from tests.support.labs import provisioned_lab
from tests.support.queued_cluster import CONTROLLER, queued
from tests.support.where import CONTROLLERS

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.virtual(CONTROLLERS)]
#: What a job does: nothing until it is told to, then it takes 16 MiB at a time, and writes into all of it.
GREEDY = """while ! test -e ~/go; do sleep 1; done
exec python3 -c "x = []
while True: x.append(bytes([1]) * (16 << 20))"
"""
SACCT = "sacct --noheader --allocations --parsable2 --duplicates --jobs={} --format=state"


@pytest.fixture(scope="module")
def queue() -> Iterator[Cluster]:
    with provisioned_lab(f"{LAB}-queue", REPOSITORY / ".cache" / "e2e-queue", "--nodes", "1") as lab:
        make_gpu(lab, NODE)
        with queued(lab, "slurm: {hours: 4}", gpus=1):
            yield lab


@pytest.fixture(autouse=True)
def nobody(queue: Cluster) -> Iterator[None]:
    yield
    for name in ("minji", "jiho"):
        queue.admin(CONTROLLER, f"scancel --user={name}")
    until(lambda: not queue.admin(CONTROLLER, "squeue --noheader").strip(), "jobs end")


def until(comes: Callable[[], bool], words: str, seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not comes():
        assert time.monotonic() < end, f"waited {seconds:g} s in vain: {words}"
        time.sleep(2)  # between two looks, each of which takes an emulated machine seconds


def submitted(queue: Cluster, name: str, does: str) -> str:
    script = f"cat > job <<'E'\n#!/bin/bash\n{does}\nE\n"
    return queue.person(name, NODE, f"{script}sbatch --parsable --gres=gpu:1 --mem=100M -o /dev/null job").strip()


def said(queue: Cluster) -> dict[str, Any]:
    """What `gpuadmin queue` says."""
    found: dict[str, Any] = queue.gpuadmin("queue")["result"]["hosts"][CONTROLLER]
    return found


def who(queue: Cluster) -> dict[str, str]:
    """Who can open the GPU. Never two, with a job each."""
    return {name: can for name in ("minji", "jiho") if (can := opened(queue, name))}


def test_a_job_that_takes_too_much_memory_leaves_nothing(queue: Cluster) -> None:
    queue.person("minji", NODE, "rm -f go")
    job = submitted(queue, "minji", GREEDY)
    until(lambda: who(queue) == {"minji": "0"}, "minji's job begins")
    # the prolog opens it before the job has a cgroup
    why = f"(systemd-cgls; sudo journalctl -u slurmd -n 60; scontrol show job {job}) >&2; exit 1"
    made = f"find /sys/fs/cgroup -type d -name job_{job} | grep . || {{ {why}; }}"
    cgroup = queue.wait(lambda: queue.ssh("admin", NODE, made), seconds=900).strip()
    assert queue.admin(NODE, f"cat {cgroup}/memory.max").strip() == str(100 << 20)
    submitted(queue, "jiho", "sleep 3000")
    with queue.session("jiho", NODE) as other:
        queue.person("minji", NODE, "touch go")
        until(lambda: who(queue) == {"jiho": "0"}, "the next one has it, and minji has not")
        assert other.poll() is None
    # before it, where emulation was too slow for its first start: REQUEUED
    assert queue.admin(CONTROLLER, SACCT.format(job)).split()[-1] == "OUT_OF_MEMORY"
    assert [(one["user"], one["place"]) for one in said(queue)["jobs"]] == [("jiho", 0)]
    assert [one["reason"] for one in said(queue)["nodes"]] == [""]
    assert queue.gpuadmin("status")["result"]["hosts"][NODE]["gpu_gate"] == []
    kills = "grep -h '^oom_kill ' /sys/fs/cgroup/user.slice/memory.events"
    assert queue.admin(NODE, kills).split() == ["oom_kill", "0"], "nothing outside of the job was ended"


def test_a_node_without_power_gives_its_job_s_gpu_to_the_next_one(queue: Cluster) -> None:
    job = submitted(queue, "minji", "sleep 3000")
    until(lambda: who(queue) == {"minji": "0"}, "minji's job begins")
    submitted(queue, "jiho", "sleep 3000")
    queue.admin(NODE, "sync")
    queue.lab("power-cut", NODE)
    away = queue.gpuadmin("status", code=4)["result"]["hosts"][NODE]
    assert away["state"] == "unreachable"
    until(lambda: said(queue)["nodes"][0]["reason"] == "Not responding", "the queue says that it does not answer", 900)
    assert queue.gpuadmin("status", code=4)["result"]["hosts"][NODE]["closed"] == "Not responding"
    queue.lab("start", NODE)
    queue.settle(NODE)

    def his_alone() -> bool:
        now = who(queue)
        assert len(now) < 2, "the GPU is open to two"
        return now == {"jiho": "0"}

    until(his_alone, "jiho's job begins, and minji has nothing")
    found = said(queue)
    assert [(one["user"], one["place"]) for one in found["jobs"]] == [("jiho", 0), ("minji", 1)]
    assert found["nodes"][0]["reason"] == ""
    assert "NODE_FAIL" in queue.admin(CONTROLLER, SACCT.format(job)).split()
    assert queue.gpuadmin("status")["result"]["hosts"][NODE]["gpu_gate"] == []

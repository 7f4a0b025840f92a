"""The queue, and people who want more of it than Slurm gives them."""

from collections.abc import Iterator

import pytest

from tests.support.gated_cluster import NODE, PROBE, opened
from tests.support.lab_cluster import Cluster
from tests.support.queued_cluster import CONTROLLER, queued

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]
QUIET = "-D / -o /dev/null -e /dev/null"
#: A name that would be two lines of what Slurm prints, and a job of root's.
ODD = (
    "$'x UserId=root(0) GRES=gpu:1(IDX:0-1) EndTime=2099-01-01T00:00:00\\n9|root|people|RUNNING\\x1f\\x1e'",
    "'; touch /tmp/owned; #'",
    "'$(touch /tmp/owned)'",
    "$'\\e]0;owned\\a{{ 7 * 7 }}'",
)
#: What operators alone may do; {0} is a job of one's own, {1} somebody else's.
FORBIDDEN = (
    "scancel {1}",
    "scontrol hold {1}",
    "scontrol requeue {1}",
    "scontrol update JobId={1} TimeLimit=1",
    "scontrol update JobId={1} Comment=x",
    "srun --jobid={1} --overlap true",
    "sattach {1}.0",
    "scontrol update JobId={0} TimeLimit=240",
    "scontrol update JobId={0} TresPerNode=gres/gpu:2",
    "scontrol update JobId={0} AdminComment=x",
    "scontrol update JobId={0} Priority=4294967290",
    "scontrol update JobId={0} QOS=exception",
    "scontrol update NodeName=node1 State=DRAIN Reason=x",
    "scontrol update NodeName=node1 State=RESUME",
    "scontrol update PartitionName=gpu MaxTime=UNLIMITED",
    "scontrol reconfigure",
    "scontrol shutdown",
    "scontrol setdebug debug5",
    "scontrol create reservation Users=minji StartTime=now Duration=60 Nodes=node1",
    "scontrol create partition PartitionName=mine Nodes=ALL",
    "sbatch --qos=exception {2} --wrap true",
    "sbatch --uid=0 {2} --wrap true",
    "sbatch --account=root {2} --wrap true",
    "sbatch --time=9-0 {2} --wrap true",
    "sbatch --array=1-1000 {2} --wrap true",
    "sacctmgr -i modify user minji set adminlevel=admin",
    "sacctmgr -i modify qos people set maxtresperuser=gres/gpu=-1",
    "sacctmgr -i add account mine",
)  # fmt: skip


@pytest.fixture
def queue(cluster: Cluster) -> Iterator[Cluster]:
    with queued(cluster) as found:
        yield found


def _started(queue: Cluster, name: str, options: str, does: str = "sleep 3000") -> str:
    job = queue.person(name, NODE, f"sbatch --parsable {QUIET} {options} --wrap '{does}'").strip()
    running = f"squeue --noheader --jobs={job} --format=%T | grep RUNNING"
    queue.wait(lambda: queue.ssh("admin", CONTROLLER, running))
    return job


def _until(queue: Cluster, name: str, can: str) -> None:
    queue.wait(lambda: queue.ssh(name, NODE, f'[ "$({PROBE})" = "{can}" ] && echo so'))


def _nothing_left(queue: Cluster) -> None:
    for name in ("minji", "jiho"):
        queue.admin(CONTROLLER, f"scancel --user={name}")
    queue.wait(lambda: queue.ssh("admin", CONTROLLER, '[ -z "$(squeue --noheader)" ] && echo none'))
    for node in ("node1", "node2"):
        left = '[ -z "$(sudo ls /var/lib/gpuadmin/gpu-grants)" ] && echo none'
        queue.wait(lambda node=node, left=left: queue.ssh("admin", node, left))
    _until(queue, "minji", "")
    assert opened(queue, "jiho") == ""
    idle = '[ "$(sinfo --noheader --format=%T | sort -u)" = idle ] && echo so'  # not drained; "planned" passes
    queue.wait(lambda: queue.ssh("admin", CONTROLLER, idle), seconds=120)
    # jobs are no hole in the gate, and root's checks say so
    queue.admin(NODE, "systemctl start gpuadmin-gpu-gate.service")


def test_nobody_gets_more_than_slurm_gives_them(queue: Cluster) -> None:
    his = _started(queue, "jiho", f"--nodelist={NODE} --gres=gpu:1")
    _until(queue, "jiho", "0")
    # a job without gres, alone and overlapped
    assert queue.person("minji", NODE, f"srun --nodelist={NODE} -D / sh -c '{PROBE}'").strip() == ""
    # an environment that says otherwise
    ask = f"sbatch --parsable --export=ALL {QUIET} --nodelist={NODE} --gres=gpu:1 --wrap 'sleep 3000'"
    forged = "SLURM_JOB_GPUS=0 SLURM_STEP_GPUS=0 SLURM_JOB_UID=0 SLURM_JOB_USER=jiho CUDA_VISIBLE_DEVICES=0"
    mine = queue.person("minji", NODE, f"{forged} SLURM_JOB_ID={his} {ask}").strip()
    _until(queue, "minji", "1")
    assert opened(queue, "jiho") == "0"
    # steps of one's own job see what it has
    overlap = f"srun --jobid={mine} --overlap --gres=gpu:1 -D / sh -c '{PROBE}'"
    assert queue.person("minji", NODE, overlap).strip() == "1"
    assert queue.ssh("minji", NODE, f"srun --jobid={mine} --overlap --gres=gpu:2 -D / true").returncode != 0
    # what operators alone may do
    before = queue.admin(CONTROLLER, "scontrol show partition; scontrol show config | grep Debug")
    allowed = []
    for command in FORBIDDEN:
        typed = command.format(mine, his, QUIET)
        done = queue.ssh("minji", NODE, f"timeout 60 {typed}")
        if done.returncode == 0:
            allowed.append((typed, done.stdout, done.stderr))
    assert allowed == []
    assert queue.admin(CONTROLLER, "scontrol show partition; scontrol show config | grep Debug") == before
    assert queue.admin(CONTROLLER, f"squeue --noheader --jobs={his} --format=%T,%l").strip() == "RUNNING,1:00:00"
    assert [opened(queue, name) for name in ("minji", "jiho")] == ["1", "0"]
    assert queue.admin(CONTROLLER, "sacctmgr -nP show user minji format=adminlevel").strip() == "None"
    _nothing_left(queue)


def test_what_a_job_leaves_behind_has_no_gpu(queue: Cluster) -> None:
    held = "exec 3</dev/nvidia0; exec sleep 4000"
    leaves = f'setsid nohup sh -c "{held}" >/dev/null 2>&1 & (setsid sleep 4001 &) ; sleep 2'
    queue.person("minji", NODE, f"sbatch --wait {QUIET} --nodelist={NODE} --gres=gpu:1 --wrap '{leaves}'")
    _until(queue, "minji", "")
    assert queue.ssh("admin", NODE, "pgrep --full '[s]leep 400[01]'").returncode == 1
    _nothing_left(queue)


def test_odd_names_and_many_jobs(queue: Cluster) -> None:
    for name in ODD:
        queue.person(
            "minji", NODE, f"sbatch {QUIET} --job-name={name} --comment={name} --gres=gpu:1 --wrap 'sleep 3000'"
        )
    queue.wait(lambda: queue.ssh("admin", CONTROLLER, "[ $(squeue --noheader --states=R | wc -l) = 4 ] && echo so"))
    shown = queue.gpuadmin("queue")["result"]["hosts"][CONTROLLER]["jobs"]
    assert [(one["user"], one["gpus"]) for one in shown] == [("minji", 1)] * 4
    listed = queue.person("jiho", NODE, "gpu list")
    assert ("root" in listed, listed.count("minji")) == (False, 4)
    assert "\x1b" not in listed
    for host in (NODE, "node2", CONTROLLER):
        queue.admin(host, "[ ! -e /tmp/owned ]")
    assert opened(queue, "minji") == "01"
    grants = queue.gpuadmin("grants")["result"]["hosts"]
    ends = [one["until"] - one["begin"] for node in ("node1", "node2") for one in grants[node]["grants"]]
    assert len(ends) == 4
    assert max(ends) < 4000, "EndTime in a name is no end"
    _nothing_left(queue)
    # many at once: as many as one may have, one after the other, and nothing is left of them
    assert queue.ssh("minji", NODE, f"sbatch --array=1-1000 {QUIET} --gres=gpu:1 --wrap true").returncode != 0
    queue.person("minji", NODE, f"sbatch --wait --array=1-15 {QUIET} --gres=gpu:1 --wrap true")
    _nothing_left(queue)

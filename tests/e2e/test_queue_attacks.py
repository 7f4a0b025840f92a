"""The attack table again, with jobs: the queue, and people who want more of it than Slurm gives them.

docs/slurm.md has the table as it is seen here.
"""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import exceptions

from tests.support.gated_cluster import NODE, PROBE, opened
from tests.support.lab_cluster import Cluster
from tests.support.queued_cluster import CONTROLLER, queued

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]
PAGE = Path(__file__).resolve().parents[2] / "docs/slurm.md"
QUIET = "-D / -o /dev/null -e /dev/null"
ASK = 'sbatch --parsable {} --nodelist={} --gres=gpu:1 --wrap "sleep 3000"'
#: A name that would be two lines of what Slurm prints, and a job of root's.
ODD = (
    "$'x UserId=root(0) GRES=gpu:1(IDX:0-1) EndTime=2099-01-01T00:00:00\\n9|root|people|RUNNING\\x1f\\x1e'",
    "'; touch /tmp/owned; #'",
    "'$(touch /tmp/owned)'",
    "$'\\e]0;owned\\a{{ 7 * 7 }}'",
)
#: What a job's prolog, which root runs, would be turned by if it came from whoever submits the job.
FORGED = (
    "SLURM_JOB_GPUS=0 SLURM_STEP_GPUS=0 SLURM_JOB_UID=0 SLURM_JOB_USER=jiho SLURM_JOB_ID={} SLURMD_NODENAME=node2"
    " SLURM_JOB_END_TIME=4070908800 CUDA_VISIBLE_DEVICES=0 PATH=/tmp/forged:$PATH PYTHONPATH=/tmp/forged"
    " LD_PRELOAD=/tmp/forged/x.so BASH_ENV=/tmp/forged/sh"
)
FORGE = (
    "mkdir -p /tmp/forged; for x in python3 scontrol sh systemctl; do printf '#!/bin/sh\\ntouch /tmp/owned\\n'"
    ' > /tmp/forged/$x; chmod 755 /tmp/forged/$x; done; echo \'open("/tmp/owned", "w")\' > /tmp/forged/json.py'
)
#: In words → commands. {0} is a job of one's own, {1} somebody else's. (`scontrol write` ends with 0 in any case.)
FORBIDDEN = {
    "ending, holding, starting again or changing another's job, by its id": (
        "scancel {1}", "scontrol hold {1}", "scontrol release {1}", "scontrol requeue {1}", "scontrol suspend {1}",
        "scontrol update JobId={1} TimeLimit=1", "scontrol update JobId={1} Comment=x",
        "scontrol update JobId={0} UserID=jiho",
    ),
    "a step in another's job (`srun --jobid --overlap`, `sattach`, `sbcast`), or its script": (
        "srun --jobid={1} --overlap true", "srun --jobid={1} --overlap --gres=gpu:1 true", "sattach {1}.0",
        "sbcast --jobid={1} /etc/hostname /tmp/x", "scontrol write batch_script {1} - | grep -v failed",
    ),
    "a step with more GPUs than the job has (`srun --overlap --gres=gpu:2`)": (
        "srun --jobid={0} --overlap --gres=gpu:2 -D / true",
    ),
    "more for a job of her own: time, GPUs, priority, another QOS, an admin's comment": (
        "scontrol update JobId={0} TimeLimit=240", "scontrol update JobId={0} TresPerNode=gres/gpu:2",
        "scontrol update JobId={0} Priority=4294967290", "scontrol update JobId={0} Nice=-1000",
        "scontrol update JobId={0} QOS=exception", "scontrol update JobId={0} AdminComment=x", "scontrol top {0}",
        "scontrol suspend {0}",
    ),
    "`scontrol` on nodes, partitions, reservations and the daemons": (
        "scontrol update NodeName=node1 State=DRAIN Reason=x", "scontrol update NodeName=node1 State=RESUME",
        "scontrol reboot node1", "scontrol delete NodeName=node1",
        "scontrol create partition PartitionName=mine Nodes=ALL", "scontrol update PartitionName=gpu MaxTime=UNLIMITED",
        "scontrol create reservation Users=minji StartTime=now Duration=60 Nodes=node1",
        "scontrol reconfigure", "scontrol shutdown", "scontrol takeover", "scontrol setdebug debug5",
        "scontrol setdebugflags +Steps", "scontrol schedloglevel 1",
    ),
    "submitting as root, into another account, with an exception's QOS, for nine days": (
        "sbatch --uid=0 {2} --wrap true", "sbatch --account=root {2} --wrap true",
        "sbatch --qos=exception {2} --wrap true", "sbatch --time=9-0 {2} --wrap true",
    ),
    "an array of 1,000 jobs, where 20 may be queued": ("sbatch --array=1-1000 {2} --wrap true",),
    "`sacctmgr`: becoming an admin, other limits": (
        "sacctmgr -i modify user minji set adminlevel=admin", "sacctmgr -i add account mine",
        "sacctmgr -i modify qos people set maxtresperuser=gres/gpu=-1",
    ),
}  # fmt: skip
#: With an admin's exception, {0}.
UNCHANGED = (
    "scontrol update JobId={0} Requeue=1", "scontrol requeue {0}", "scontrol requeuehold {0}",
    "scontrol update JobId={0} TimeLimit=1", "scontrol update JobId={0} TimeLimit=+60",
    "scontrol update JobId={0} QOS=people", "scontrol update JobId={0} TresPerNode=gres/gpu:2",
    "scontrol update JobId={0} AdminComment=x", "scontrol update JobId={0} Comment=x",
    "scontrol update JobId={0} Requeue=1 Comment=open", "scontrol hold {0}", "scontrol suspend {0}",
)  # fmt: skip
SEEN = "scontrol show partition; scontrol show config | grep Debug; sacctmgr -nP show qos; sacctmgr -nP show user"
HELD = "exec 3</dev/nvidia0; exec sleep 4000"
LEAVES = (
    f'setsid nohup sh -c "{HELD}" >/dev/null 2>&1 & (setsid sleep 4001 &);'
    " XDG_RUNTIME_DIR=/run/user/$(id -u) systemd-run --user --quiet --unit=left sleep 4002; sleep 2"
)


@pytest.fixture
def queue(with_queue: Cluster) -> Iterator[Cluster]:
    with queued(with_queue) as found:
        yield found


def _started(queue: Cluster, name: str, command: str) -> str:
    job = queue.person(name, NODE, command).strip()
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
        left = '[ -z "$(sudo ls /run/gpuadmin-grants)" ] && echo none'
        queue.wait(lambda node=node, left=left: queue.ssh("admin", node, left))
    _until(queue, "minji", "")
    assert opened(queue, "jiho") == ""
    idle = '[ "$(sinfo --noheader --format=%T | sort -u)" = idle ] && echo so'  # not drained; "planned" passes
    queue.wait(lambda: queue.ssh("admin", CONTROLLER, idle), seconds=120)
    # jobs are no hole in the gate, and root's checks say so
    queue.admin(NODE, "systemctl start gpuadmin-gpu-gate.service")


def _allowed(queue: Cluster, commands: Sequence[str], *ids: str) -> str:
    """`refused`, or what was not."""
    words = [one.format(*ids) for one in commands]
    done = [(typed, queue.ssh("minji", NODE, f"timeout 60 {typed}")) for typed in words]
    return "; ".join(f"{typed}: {one.stdout}{one.stderr}" for typed, one in done if one.returncode == 0) or "refused"


def _steps(queue: Cluster) -> Iterator[tuple[str, str]]:
    """While jiho has GPU 0 by a job: what minji tries, and what she gets: the GPUs that she opens, or words."""

    def step(options: str) -> str:
        return queue.person("minji", NODE, f"srun {options} -D / sh -c '{PROBE}'").strip()

    none = f"--nodelist={NODE} --time=1"
    his = _started(queue, "jiho", ASK.format(QUIET, NODE))
    _until(queue, "jiho", "0")
    yield "a job without GPUs", step(none)
    yield (
        "… whose step asks for one (`srun --gres=gpu:1` in a job without)",
        _allowed(queue, [f"salloc {none} srun --gres=gpu:1 -D / true"]),
    )
    queue.person("minji", NODE, FORGE)
    mine = _started(queue, "minji", f"{FORGED.format(his)} {ASK.format(f'--export=ALL {QUIET}', NODE)}")
    _until(queue, "minji", "1")
    yield (
        "a forged environment when she submits (`SLURM_JOB_GPUS=0`, another's id, `PATH`, `LD_PRELOAD`)",
        opened(queue, "minji"),
    )
    assert opened(queue, "jiho") == "0"
    yield (
        "a step beside others in her own job (`srun --jobid --overlap`)",
        step(f"--jobid={mine} --overlap --gres=gpu:1"),
    )
    before = queue.admin(CONTROLLER, SEEN)
    for words, commands in FORBIDDEN.items():
        yield words, _allowed(queue, commands, mine, his, QUIET)
    assert queue.admin(CONTROLLER, SEEN) == before
    assert queue.admin(CONTROLLER, f"squeue --noheader --jobs={his} --format=%T,%l,%Q").startswith("RUNNING,1:00:00,")
    assert [opened(queue, name) for name in ("minji", "jiho")] == ["1", "0"]
    for host in (NODE, "node2", CONTROLLER):
        queue.admin(host, "[ ! -e /tmp/owned ]")
    queue.admin(CONTROLLER, f"scancel {his}")  # a node runs as many jobs as it has processors: two
    yield "a job without GPUs, beside one of hers that has GPU 1", step(none)
    _nothing_left(queue)


def _left_behind(queue: Cluster) -> Iterator[tuple[str, str]]:
    job = f"sbatch --wait {QUIET} --nodelist={NODE} --gres=gpu:1 --wrap '{LEAVES}'"
    queue.person("minji", NODE, job)
    _until(queue, "minji", "")
    there = queue.ssh("admin", NODE, "pgrep --full '[s]leep 400[01]'").returncode == 0
    yield "a daemon that a job leaves behind (`setsid nohup`), which has its GPU open", "goes on" if there else "ended"
    runs = queue.ssh("minji", NODE, "systemctl --user is-active left").returncode == 0
    assert runs, "a unit of hers is not a job's"
    yield (
        "a unit of hers that a job starts (`systemd-run --user`), afterwards",
        queue.person(
            "minji", NODE, f"systemd-run --user --quiet --wait --pipe sh -c '{PROBE.replace('$', '$$')}'"
        ).strip(),
    )
    queue.person("minji", NODE, "systemctl --user stop left")
    _nothing_left(queue)


def _odd_names(queue: Cluster) -> Iterator[tuple[str, str]]:
    for name in ODD:
        queue.person(
            "minji", NODE, f"sbatch {QUIET} --job-name={name} --comment={name} --gres=gpu:1 --wrap 'sleep 3000'"
        )
    queue.wait(lambda: queue.ssh("admin", CONTROLLER, "[ $(squeue --noheader --states=R | wc -l) = 4 ] && echo so"))
    shown = queue.gpuadmin("queue")["result"]["hosts"][CONTROLLER]["jobs"]
    listed = queue.person("jiho", NODE, "gpu list")
    assert [(one["user"], one["gpus"]) for one in shown] == [("minji", 1)] * 4
    assert ("root" in listed, listed.count("minji"), "\x1b" in listed) == (False, 4, False)
    for host in (NODE, "node2", CONTROLLER):
        queue.admin(host, "[ ! -e /tmp/owned ]")
    grants = queue.gpuadmin("grants")["result"]["hosts"]
    ends = [one["until"] - one["begin"] for node in ("node1", "node2") for one in grants[node]["grants"]]
    assert (len(ends), opened(queue, "minji")) == (4, "01")
    yield (
        "names and comments of jobs that are further lines, commands, templates or a terminal's, with an `EndTime`",
        "shown as one line, her GPUs until their end" if max(ends) < 4000 else "a later end",
    )
    _nothing_left(queue)


def _still_waiting(queue: Cluster) -> None:
    """Until it runs, an exception waits as hers: on hold, then with its QOS. She would have all processors of the node,
    or leave the hold; that it is open is said by a job that runs alone."""
    command = shlex.join(exceptions.command(20000, NODE))
    job = queue.admin(CONTROLLER, f"sudo {command}").strip()
    more = ("", "Comment=open ")
    changes = (
        f"scontrol update JobId={job} {open}{change}" for open in more for change in ("NumCPUs=2", "MinMemoryNode=1")
    )
    typed = [*changes, f"scontrol update JobId={job} Comment=open", f"scontrol release {job}"]
    assert _allowed(queue, typed) == "refused"
    queue.admin(CONTROLLER, f"sudo scontrol update JobId={job} QOS=exception AdminComment=x StartTime=now+1hour")
    queue.admin(CONTROLLER, f"sudo scontrol release {job}")
    assert _allowed(queue, typed) == "refused"
    queue.person("minji", NODE, f"scancel {job}")
    _nothing_left(queue)


def _exception(queue: Cluster) -> Iterator[tuple[str, str]]:
    _still_waiting(queue)
    queue.gpuadmin("grant", "minji", NODE, "--gpus", "1", "--hours", "1", "--reason", "paper", "--yes")
    job = queue.admin(CONTROLLER, "squeue --noheader --user=minji --format=%i").strip()
    before = queue.admin(CONTROLLER, f"scontrol show job {job} | grep -v RunTime")
    assert ("Requeue=0" in before, "QOS=exception" in before) == (True, True)
    got = _allowed(queue, UNCHANGED, job)
    assert queue.admin(CONTROLLER, f"scontrol show job {job} | grep -v RunTime") == before
    yield "an admin's exception: having it started again, for longer, for more GPUs, without its reason", got
    told = queue.ssh("minji", NODE, f"scontrol update JobId={job} Requeue=1").stderr
    assert "an admin gave you this job" in told, told
    queue.gpuadmin("revoke", f"slurm-{job}", "--yes")
    _nothing_left(queue)


def _many(queue: Cluster) -> Iterator[tuple[str, str]]:
    queue.person("minji", NODE, f"sbatch --wait --array=1-15 {QUIET} --gres=gpu:1 --wrap true")
    _nothing_left(queue)
    yield "an array of 15 jobs with a GPU each", "runs; nothing is left"


def test_nobody_gets_more_than_slurm_gives_them(queue: Cluster) -> None:
    rows = [*_steps(queue), *_left_behind(queue), *_odd_names(queue), *_exception(queue), *_many(queue)]
    table = ["| what she tries | what she gets |", "| --- | --- |"]
    table += [f"| {words} | {got or '–'} |" for words, got in rows]
    print("\n" + "\n".join(table))
    page = PAGE.read_text(encoding="utf-8")
    assert "\n".join(table) in page, "docs/slurm.md has another table than what was seen"

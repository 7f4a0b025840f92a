"""The queue while its parts are killed: nobody opens a GPU that Slurm has given to somebody else."""

import re
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.gated_cluster import NODE, PROBE
from tests.support.lab_cluster import Cluster
from tests.support.queued_cluster import CONTROLLER, queued

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]
NODES, PEOPLE = ("node1", "node2"), ("minji", "jiho")
LOCK = "/run/gpuadmin/locks/gpu-gate"
SLEEPS = "-D / -o /dev/null --wrap 'srun sleep 3000'"


@pytest.fixture
def queue(with_queue: Cluster) -> Iterator[Cluster]:
    with queued(with_queue) as found:
        yield found


def opened(queue: Cluster, name: str, node: str) -> set[str]:
    return set(queue.person(name, node, PROBE).strip())


def owners(queue: Cluster) -> dict[tuple[str, str], str]:
    """(node, GPU) → whose job has it, as Slurm says."""
    found = {}
    for line in queue.admin(CONTROLLER, "scontrol --details --oneliner show job").splitlines():
        person = re.search(r"UserId=(\w+)\(", line)
        if person is None or "JobState=RUNNING" not in line:
            continue
        for names, numbers in re.findall(r"Nodes=(\S+) CPU_IDs=\S+ Mem=\d+ GRES=gpu[^(]*\(IDX:([0-9,-]+)\)", line):
            nodes = NODES if names == "node[1-2]" else (names,)
            gpus = "01" if numbers == "0-1" else numbers.replace(",", "")
            found.update({(node, gpu): person[1] for node in nodes for gpu in gpus})
    return found


def exact(queue: Cluster) -> bool:
    """Whether everybody opens what Slurm gave to them and nothing else. Nobody ever opens what is another's."""
    before = owners(queue)
    seen = {(node, gpu, name) for name in PEOPLE for node in NODES for gpu in opened(queue, name, node)}
    after = owners(queue)
    for node, gpu, name in seen:
        having = {one.get((node, gpu), name) for one in (before, after)}
        assert having == {name}, f"{name} opens GPU {gpu} of {node}, which Slurm has given to {having}"
    return before == after and seen == {(*place, name) for place, name in after.items()}


def until(comes: Callable[[], bool], words: str, seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not comes():
        assert time.monotonic() < end, f"waited {seconds:g} s in vain: {words}"
        time.sleep(1)  # between two looks


def killed(queue: Cluster, host: str, unit: str) -> None:
    """SIGKILL the unit's main process; systemd starts it again by itself."""
    before = queue.admin(host, f"systemctl show --property=MainPID --value {unit}").strip()
    queue.admin(host, f"kill -KILL {before}")
    again = f'[ "$(systemctl is-active {unit})" = active ] && systemctl show --property=MainPID --value {unit}'
    queue.wait(lambda: queue.ssh("admin", host, again), differs=f"{before}\n", seconds=90)


def submitted(queue: Cluster, name: str, options: str) -> str:
    return queue.person(name, NODE, f"sbatch --parsable {options} {SLEEPS}").strip()


def usable(queue: Cluster) -> None:
    """Nodes that were drained take jobs again; nobody has a job."""
    for name in PEOPLE:
        queue.admin(CONTROLLER, f"scancel --user={name}")
    until(lambda: not queue.admin(CONTROLLER, "squeue --noheader").strip(), "jobs end")
    for node in NODES:
        if "drain" in queue.admin(CONTROLLER, f"sinfo --noheader --nodes={node} --format=%T"):
            queue.gpuadmin("resume", node, "--yes")
    idle = f"sinfo --noheader --nodes={','.join(NODES)} --format=%T"
    until(lambda: queue.admin(CONTROLLER, idle).split() == ["idle"], "nodes are idle")
    until(lambda: exact(queue), "all is closed")


def test_jobs_go_on_whatever_is_killed(queue: Cluster) -> None:
    submitted(queue, "minji", f"--gres=gpu:1 --nodelist={NODE}")
    until(lambda: opened(queue, "minji", NODE) != set(), "minji's job begins")
    submitted(queue, "jiho", "-N2 --gres=gpu:1")
    until(lambda: len(owners(queue)) == 3 and exact(queue), "jiho's job over two nodes begins")
    before = owners(queue)
    for host, unit in (
        (CONTROLLER, "mariadb"), (CONTROLLER, "slurmdbd"), (CONTROLLER, "slurmctld"), (NODE, "slurmd"),
    ):  # fmt: skip
        killed(queue, host, unit)
        until(lambda: exact(queue), f"all is as before {unit} was killed", 60)
        assert owners(queue) == before
    # the host of the queue and of the homes loses its power: what runs has its GPUs
    queue.lab("power-cut", CONTROLLER)
    can = queue.admin(NODE, "grep -h user /run/gpuadmin-grants/*.json | sort")
    assert can.split() == ['"user":', '"jiho",', '"user":', '"minji",']
    queue.lab("start", CONTROLLER)
    queue.settle(CONTROLLER)
    up = "scontrol ping | grep -c UP"
    queue.wait(lambda: queue.ssh("admin", CONTROLLER, up), seconds=120)
    until(lambda: exact(queue), "all is as before the power cut", 120)
    assert owners(queue) == before
    usable(queue)
    _two_nodes(queue)
    # two jobs of one person on one node, which end in any order
    for first in (0, 1):
        jobs = [submitted(queue, "minji", f"--gres=gpu:1 --nodelist={NODE}") for _ in range(2)]
        until(lambda: len(owners(queue)) == 2 and exact(queue), "both begin")
        queue.person("minji", NODE, f"scancel {jobs[first]}")
        until(lambda: len(owners(queue)) == 1 and exact(queue), "one is left")
        queue.person("minji", NODE, f"scancel {jobs[1 - first]}")
        until(lambda: not owners(queue) and exact(queue), "none is left")
    _a_hundred_jobs(queue)


def test_killed_in_the_middle_of_a_job_s_start_and_end(queue: Cluster) -> None:
    """Prolog and epilog wait for the lock of the gate: they have begun, and have opened or closed nothing yet."""
    for unit in ("slurmd", "slurmctld", "slurm-prolog"):
        _held(queue, 12)
        submitted(queue, "minji", f"--gres=gpu:1 --nodelist={NODE}")
        _kill_beside(queue, unit, "slurm-prolog")
        # whoever comes next gets what Slurm gives to them, and exactly that
        submitted(queue, "jiho", f"--gres=gpu:1 --nodelist={NODE}")
        _settled(queue)
        usable(queue)
    for unit in ("slurmd", "slurmctld", "slurm-epilog"):
        submitted(queue, "minji", f"--gres=gpu:1 --nodelist={NODE}")
        until(lambda: opened(queue, "minji", NODE) != set(), "minji's job begins")
        _held(queue, 12)
        queue.person("minji", NODE, "scancel --me")
        _kill_beside(queue, unit, "slurm-epilog")
        submitted(queue, "jiho", f"--gres=gpu:2 --nodelist={NODE}")
        _settled(queue)
        usable(queue)


def _held(queue: Cluster, seconds: int) -> None:
    queue.admin(NODE, f"systemd-run --quiet --unit=holds-the-gate flock {LOCK} sleep {seconds}")
    queue.wait(lambda: queue.ssh("admin", NODE, f"! sudo flock --nonblock {LOCK} true && echo held"))


def _kill_beside(queue: Cluster, unit: str, waits: str) -> None:
    """Kill the unit, or the very script, once it waits."""
    queue.wait(lambda: queue.ssh("admin", NODE, f"pgrep --full '[c]li.py {waits}'"), seconds=30)
    if unit == waits:
        queue.admin(NODE, f"pkill -KILL --full '[c]li.py {waits}'")
    else:
        killed(queue, CONTROLLER if unit == "slurmctld" else NODE, unit)


def _settled(queue: Cluster) -> None:
    """Once nothing holds the gate, everybody opens what Slurm gave to them, or their node is drained and says why."""
    queue.wait(
        lambda: queue.ssh("admin", NODE, "! systemctl is-active --quiet holds-the-gate && echo free"), seconds=60
    )

    def fine() -> bool:
        drained = "drain" in queue.admin(CONTROLLER, f"sinfo --noheader --nodes={NODE} --format=%T")
        return exact(queue) and (bool(owners(queue)) or drained)

    until(fine, "all is exact", 300)  # an epilog that was killed: the timer closes it


def _two_nodes(queue: Cluster) -> None:
    """A job over both nodes begins while slurmctld is killed, and ends while there is none."""
    _held(queue, 20)
    submitted(queue, "jiho", "-N2 --gres=gpu:1")
    time.sleep(8)  # Slurm writes down within five seconds which jobs there are: a younger one would be lost with it
    _kill_beside(queue, "slurmctld", "slurm-prolog")
    _settled(queue)
    usable(queue)
    queue.person("jiho", NODE, "rm -f end")
    ends = "-D ~ -o /dev/null --wrap 'srun sh -c \"while ! test -e end; do sleep 1; done\"'"
    queue.person("jiho", NODE, f"sbatch -N2 --gres=gpu:1 {ends}")
    until(lambda: len(owners(queue)) == 2 and exact(queue), "jiho's job begins on both")
    queue.admin(CONTROLLER, "systemctl kill --signal=KILL slurmctld; systemctl stop slurmctld")
    queue.person("jiho", NODE, "touch end")
    queue.wait(lambda: queue.ssh("jiho", NODE, "! pgrep --euid jiho srun && echo ended"))
    # nobody tells the nodes to end the job, and nobody is given its GPUs meanwhile: they are his until its time is over
    assert [opened(queue, "jiho", node) for node in NODES] != [set(), set()]
    queue.admin(CONTROLLER, "systemctl start slurmctld")
    until(lambda: not any(opened(queue, "jiho", node) for node in NODES), "both nodes are closed", 300)
    usable(queue)


def _a_hundred_jobs(queue: Cluster) -> None:
    """They leave nothing behind."""
    one = "systemctl show user-$(id -u {}).slice -p DeviceAllow | sed 's/DeviceAllow=/\\n/g' | sort"
    slices = "; ".join(one.format(name) for name in PEOPLE)
    loop = "for one in $(seq 50); do srun --gres=gpu:1 -D / true || exit 1; done"
    queue.person("minji", NODE, "srun --gres=gpu:1 --nodelist=node1 -D / true")
    queue.person("jiho", NODE, "srun --gres=gpu:1 --nodelist=node1 -D / true")
    until(lambda: exact(queue), "all is closed")
    before = queue.admin(NODE, slices)
    other = queue.ssh_command("jiho", NODE)
    with subprocess.Popen([*other, loop], stdout=subprocess.DEVNULL) as beside:
        queue.person("minji", NODE, loop)
        assert beside.wait(600) == 0
    until(lambda: exact(queue), "all is closed")
    assert queue.admin(NODE, slices) == before
    for node in NODES:
        assert queue.admin(node, "ls /run/gpuadmin-grants").split() == []
        state = f"sinfo --noheader --nodes={node} --format=%T"
        # `planned` is an idle one that Slurm has just kept for a job which is gone
        until(lambda asked=state: queue.admin(CONTROLLER, asked).strip() == "idle", f"{node} is idle", 120)

"""What the queue costs: a grant at a job's start, 500 people in its accounts, 1,000 jobs that wait (needs root).
A grant adds at most 150 ms to 95 of 100 prologs, the people take at most 2 s, `gpuadmin queue` at most 1 s.

    .venv/bin/python benchmarks/queue.py [--jobs 40] [--people 500] [--waiting 1000] [--json FILE]

Method. A lab of its own, of light hosts, is provisioned with a queue. All figures are wall-clock times of one run.
- Start of a job: on a node, in turn, what slurmd runs as prolog and as epilog for a job with a GPU, Python's start with
  it, and the same for a job without GPUs, which grants nothing; then, in turn, `srun` of `true` with a GPU and without.
- People: on the queue's host, in one process with the node's own code, the operation that brings accounts to people who
  are all new; the programs of Slurm's that it starts are counted; then the same once more, with nothing to do.
- Queue: one person has so many jobs that wait; `gpuadmin queue` on the controller, from the start of Python to its last
  line, and the same by a playbook (`-v`), `gpuadmin --version` beside it, and on a node `gpu list`. Processor time is
  that of the controller, of all that the verb starts there.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from _checkout import ROOT

from tests.support.gated_cluster import NODE
from tests.support.lab_cluster import GPUADMIN, Cluster
from tests.support.labs import provisioned_lab
from tests.support.queued_cluster import CONTROLLER, queued

LAB = ("--light", "--nodes", "2", "--gpus", "2")
SLURM = "slurm: {constrain: [], hours: 4, queued: 100000}"

PROLOGS = r"""
import json, os, subprocess, sys, time
rounds, uid = int(sys.argv[1]), sys.argv[2]
times = {"grant": [], "its end": [], "no grant": []}
def go(what, command, **job):
    began = time.perf_counter()
    env = {**os.environ, "SLURM_JOB_UID": uid, "SLURM_JOB_USER": "minji", "SLURMD_NODENAME": "node1", **job}
    env["SLURM_JOB_END_TIME"] = str(int(time.time()) + 600)
    cli = ["/usr/bin/python3", "-IB", "/var/lib/gpuadmin/lib/gpuadmin_node/cli.py"]
    subprocess.run([*cli, command], env=env, check=True, stdout=subprocess.DEVNULL)
    times[what].append(time.perf_counter() - began)
for number in range(rounds):
    one = {"SLURM_JOB_ID": str(900000 + number), "SLURM_JOB_GPUS": "0"}
    go("grant", "slurm-prolog", **one)
    go("its end", "slurm-epilog", **one)
    go("no grant", "slurm-prolog", SLURM_JOB_ID=str(800000 + number))
print(json.dumps(times))
"""
SRUNS = r"""
import json, subprocess, sys, time
times = {"srun with a GPU": [], "srun without": []}
for number in range(int(sys.argv[1])):
    for what, gres in (("srun with a GPU", ["--gres=gpu:1"]), ("srun without", [])):
        began = time.perf_counter()
        command = ["srun", "--nodelist=node1", "--chdir=/", "--time=1", *gres, "true"]
        subprocess.run(command, check=True, capture_output=True)
        times[what].append(time.perf_counter() - began)
print(json.dumps(times))
"""
PEOPLE = r"""
import json, os, sys, time
node = os.path.realpath("/var/lib/gpuadmin/lib/gpuadmin_node")
sys.path.insert(0, node.rpartition("/ansible_collections/")[0])
sys.dont_write_bytecode = True
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import operations
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.accounts import Group
users = [{"name": f"b{number:04}"} for number in range(int(sys.argv[1]))]
document = operations.SlurmAccounts(users=json.dumps(users), groups=[Group("bench", 10, 24, 20, 4)])
calls, real = [], operations.run
operations.run = lambda command, **named: (calls.append(command[0]), real(command, **named))[1]
found = []
for _ in range(2):
    calls.clear()
    began = time.perf_counter()
    operations.converge_slurm_accounts(document, False)
    found.append([time.perf_counter() - began, len(calls)])
print(json.dumps(found))
"""


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds: the median, what 95 of 100 stay below, the most."""
    found = sorted(1000 * one for one in seconds)
    return {"median": found[len(found) // 2], "p95": found[int(len(found) * 0.95)], "max": found[-1]}


def script(cluster: Cluster, login: str, host: str, text: str, *arguments: object) -> object:
    """What a Python script prints there, as JSON; as root where the admin is `login`."""
    words = ["python3", "-", *map(str, arguments)]
    words = ["sudo", *words] if login == "admin" else words
    done = subprocess.run(
        [*cluster.ssh_command(login, host), *words], input=text, text=True, check=True, stdout=subprocess.PIPE
    )  # fmt: skip
    return json.loads(done.stdout)


def timed(cluster: Cluster, *words: str) -> tuple[list[float], list[float]]:
    """Seconds on the clock, and of the controller's processors, of five runs."""
    clock, processor = [], []
    for _ in range(5):
        began, used = time.perf_counter(), _used()
        subprocess.run([GPUADMIN, *words], cwd=cluster.site, check=True, capture_output=True)
        clock.append(time.perf_counter() - began)
        processor.append(_used() - used)
    return clock, processor


def _used() -> float:
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


def measure(cluster: Cluster, arguments: argparse.Namespace) -> dict[str, object]:
    uid = cluster.admin(NODE, "id -u minji").strip()
    cluster.admin(NODE, "systemctl stop gpuadmin-gpu-gate.timer")  # it knows no such jobs, and would end their grants
    found: dict[str, object] = {}
    try:
        prologs = script(cluster, "admin", NODE, PROLOGS, arguments.jobs, uid)
    finally:
        cluster.admin(NODE, "systemctl start gpuadmin-gpu-gate.timer")
    sruns = script(cluster, "minji", NODE, SRUNS, arguments.jobs)
    assert isinstance(prologs, dict)
    assert isinstance(sruns, dict)
    found["start"] = {what: spread(times) for what, times in {**prologs, **sruns}.items()}
    found["people"] = script(cluster, "admin", CONTROLLER, PEOPLE, arguments.people)
    empty = timed(cluster, "queue", "--json")
    submit = "sbatch --parsable --gres=gpu:2 -N2 -D / -o /dev/null --wrap true >/dev/null"
    cluster.person("minji", NODE, "sbatch --parsable --gres=gpu:2 -N2 -D / -o /dev/null --wrap 'sleep 3000'")
    cluster.person("minji", NODE, f"for one in $(seq {arguments.waiting}); do {submit}; done")
    found["waiting"] = len(cluster.gpuadmin("queue")["result"]["hosts"][CONTROLLER]["jobs"])
    times = {
        "gpuadmin queue": timed(cluster, "queue", "--json"),
        "the same, of nobody": empty,
        "by a playbook": timed(cluster, "queue", "--json", "-v"),
        "gpuadmin --version": timed(cluster, "--version"),
    }
    found["queue"] = {what: spread(clock) for what, (clock, _) in times.items()}
    found["queue, processor"] = {what: spread(processor) for what, (_, processor) in times.items()}
    began = time.perf_counter()
    cluster.person("minji", NODE, "gpu list >/dev/null")
    found["gpu list, by ssh"] = time.perf_counter() - began
    cluster.person("minji", NODE, "scancel --me")
    return found


def main() -> int:
    """Measure, print a table, write JSON. 1 where something takes longer than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--people", type=int, default=500)
    parser.add_argument("--waiting", type=int, default=1000)
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "queue.json")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        provisioned_lab("bench-queue", Path(directory) / "lab", *LAB) as cluster,
        queued(cluster, SLURM),
    ):
        found = measure(cluster, arguments)
    start, people, queue, used = (found[one] for one in ("start", "people", "queue", "queue, processor"))
    assert isinstance(start, dict)
    assert isinstance(people, list)
    assert isinstance(queue, dict)
    assert isinstance(used, dict)
    for what, row in {**start, **queue}.items():
        print(f"{what:<20} {' / '.join(f'{one:.0f}' for one in row.values())} ms (median / p95 / most)")
    for what, row in used.items():
        print(f"{what:<20} {row['median']:.0f} ms of the controller's processors (median)")
    (new, programs), (nothing, _) = people
    print(f"{arguments.people} new people: {new:.2f} s, {programs} programs; nothing to do: {nothing:.2f} s")
    print(f"`gpu list` with {found['waiting']} jobs, by ssh: {found['gpu list, by ssh']:.2f} s")
    beyond = start["grant"]["p95"] - start["no grant"]["median"]
    ratio = start["grant"]["median"] / start["no grant"]["median"]
    print(f"a grant beyond a prolog that grants nothing: p95 {beyond:.0f} ms; the medians: {ratio:.2f} x")
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    return int(beyond > 150 or new > 2 or queue["gpuadmin queue"]["median"] > 1000)


if __name__ == "__main__":
    sys.exit(main())

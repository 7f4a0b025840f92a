"""Grants one after another on a node with many people, as the node does them, while somebody opens all GPUs in a loop.

The script runs on the node, as root, with the node's own code. People are slices in which a process sleeps, and have
no account: the timer, which would end their grants for that, stands still meanwhile.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.support.lab_cluster import Cluster

SCRIPT = r'''
import glob, json, os, resource, subprocess, sys, time
node = os.path.realpath("/var/lib/gpuadmin/lib/gpuadmin_node")
sys.path.insert(0, node.rpartition("/ansible_collections/")[0])
sys.dont_write_bytecode = True
from ansible_collections.gpuadmin.node.plugins.module_utils import cgroups
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import gate, reconcile, trials

rounds, people = int(sys.argv[1]), int(sys.argv[2])
uids = range(30000, 30000 + people)
places = gate.Places(lookup=lambda name: (int(name[1:]),) * 2 if name[1:].isdigit() else None)
settings = gate.read(places.settings)
files = [path for paths in settings.gpus.values() for path in paths]
over = "/run/granting-is-over"
LOOP = """
import json, os, sys
os.setuid(int(sys.argv[2]))
opened, tries = set(), 0
while not os.path.exists(sys.argv[1]):
    for path in sys.argv[3:]:
        tries += 1
        try:
            os.close(os.open(path, os.O_RDONLY))
            opened.add(path)
        except PermissionError:
            pass
print(json.dumps([sorted(opened), tries]))
"""

def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout

def unit(uid, *options):
    return ("systemd-run", "--quiet", f"--slice=user-{uid}.slice", *options)

def operate(**document):
    answer = operations.change_grants(GrantsOrder(**document), False, places)
    assert not answer.report["problems"], answer.report

def grant(number, uid, gpu):
    return WantedGrant(f"granting-{number}", f"p{uid}", uid, int(time.time()) + 3600, "root", gpus=[gpu])

def state():
    found = {}
    for uid in uids:
        name = f"user-{uid}.slice"
        drop_ins = sorted(glob.glob(f"/run/systemd/system.control/{name}.d/*"))
        opens = trials.opens(cgroups.find_cgroup(name), files)
        shown = run("systemctl", "show", name, "-p", "DevicePolicy,DeviceAllow")
        # in which order systemd has a list depends on what it was told before
        found[name] = [sorted(shown.splitlines()), opens,
                       *([path, sorted(open(path).read().splitlines())] for path in drop_ins)]
    return found

def processor():
    """Seconds of this process, its children and systemd."""
    fields = open("/proc/1/stat").read().rpartition(") ")[2].split()
    mine = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    systemd = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return systemd + sum(one.ru_utime + one.ru_stime for one in mine)

def timed(work):
    clock, cpu = time.perf_counter(), processor()
    work()
    return time.perf_counter() - clock, processor() - cpu

run("systemctl", "stop", "gpuadmin-gpu-gate.timer")
for uid in uids:
    run(*unit(uid, f"--unit=granting-{uid}"), "sleep", "3600")
try:
    reconcile.reconcile(places)
    operate(grant=grant("loop", uids[0], "1"))
    before = state()
    command = unit(uids[0], "--pipe", "--wait", "--unit=granting-loop")
    loop = subprocess.Popen((*command, sys.executable, "-c", LOOP, over, str(uids[0]), *files),
                            stdout=subprocess.PIPE, text=True)
    times = {"grant": [], "end": [], "plain": []}
    for number in range(rounds):
        uid = uids[1 + number % (people - 1)]
        times["grant"].append(timed(lambda: operate(grant=grant(number, uid, "0"))))
        assert trials.opens(cgroups.find_cgroup(f"user-{uid}.slice"), files) == files[:1]
        times["end"].append(timed(lambda: operate(end=[f"granting-{number}"])))
        told = gate.properties(gate.allowed(settings))
        times["plain"].append(timed(lambda: run("systemctl", "set-property", "--runtime", f"user-{uid}.slice", *told)))
    open(over, "w").close()
    opened, tries = json.loads(loop.communicate(timeout=60)[0])
    after = state()
    drift = {name: [before[name], after[name]] for name in before if before[name] != after[name]}
    whole = timed(lambda: reconcile.reconcile(places))
    print(json.dumps({"times": times, "whole": whole, "drift": drift, "opened": opened, "tries": tries}))
finally:
    open(over, "w").close()
    subprocess.run(("systemctl", "stop", "granting-loop.service", *(f"granting-{uid}" for uid in uids)), check=False)
    ending = ["granting-loop", *(f"granting-{number}" for number in range(rounds))]
    operations.change_grants(GrantsOrder(end=ending), False, places)
    run("systemctl", "start", "gpuadmin-gpu-gate.timer")
    os.unlink(over)
'''


@dataclass(frozen=True)
class Seen:
    """`times`: `grant`, `end` and `plain` (one `systemctl set-property --runtime` of the same slice) → seconds on the
    clock and of processor time, each time. `whole`: the same of the timer's run. `drift`: slices that are otherwise
    afterwards than before. `opened`: the device files that who has GPU 1 has opened, in `tries` tries."""

    times: dict[str, list[tuple[float, float]]]
    whole: tuple[float, float]
    drift: dict[str, Any]
    opened: list[str]
    tries: int


def grants_in_a_row(cluster: Cluster, host: str, rounds: int, people: int) -> Seen:
    """Grant GPU 0 and take it back so often, in turn to all but the first of so many people."""
    cluster.admin(host, f"cat > /run/granting.py <<'E'\n{SCRIPT}\nE")
    out = cluster.admin(host, f"python3 -I /run/granting.py {rounds} {people}")
    return Seen(**json.loads(out))

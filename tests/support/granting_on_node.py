"""Grants one after another on a node with many people, as it does them, while somebody opens all GPUs in a loop.

    python3 -I granting_on_node.py ROUNDS PEOPLE

Runs on the node, as root, with the node's own code, and prints JSON. People are slices in which a process sleeps, and
have no account: the timer, which would end their grants for that, stands still meanwhile.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIBRARY = os.path.realpath("/var/lib/gpuadmin/lib/gpuadmin_node")
sys.path.insert(0, LIBRARY.rpartition("/ansible_collections/")[0])
sys.dont_write_bytecode = True
from ansible_collections.gpuadmin.node.plugins.module_utils import cgroups  # noqa: E402 - its place is known now
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import (  # noqa: E402 - as above
    gate,
    operations,
    reconcile,
    trials,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.operations import (  # noqa: E402 - as above
    GrantsOrder,
    WantedGrant,
)

ROUNDS, UIDS = int(sys.argv[1]), range(30000, 30000 + int(sys.argv[2]))
PLACES = gate.Places(lookup=lambda name: (int(name[1:]),) * 2 if name[1:].isdigit() else None)
SETTINGS = gate.read(PLACES.settings)
FILES = [path for paths in (SETTINGS.gpus or {}).values() for path in paths]
OVER = Path("/run/granting-is-over")
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


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def unit(uid: int, *options: str) -> tuple[str, ...]:
    return ("systemd-run", "--quiet", f"--slice=user-{uid}.slice", *options)


def change(**order: Any) -> None:
    answer = operations.change_grants(GrantsOrder(**order), False, PLACES)
    assert not answer.report["problems"], answer.report


def grant(name: object, uid: int, gpu: str) -> None:
    until = int(time.time()) + 3600
    change(grant=WantedGrant(f"granting-{name}", f"p{uid}", uid, until, "root", gpus=[gpu]))


def find_opened(uid: int) -> list[str]:
    cgroup = cgroups.find_cgroup(f"user-{uid}.slice")
    assert cgroup is not None
    return trials.opens(cgroup, FILES)


def look() -> dict[str, Any]:
    """What each slice has: systemd's settings, what can be opened, and drop-ins."""
    found = {}
    for uid in UIDS:
        name = f"user-{uid}.slice"
        drop_ins = sorted(Path(f"/run/systemd/system.control/{name}.d").glob("*"))
        shown = run("systemctl", "show", name, "-p", "DevicePolicy,DeviceAllow")
        # in which order systemd has a list depends on what it was told before
        lists = [[str(path), sorted(path.read_text().splitlines())] for path in drop_ins]
        found[name] = [sorted(shown.splitlines()), find_opened(uid), *lists]
    return found


def processor() -> float:
    """Seconds of this process, its children and systemd."""
    fields = Path("/proc/1/stat").read_text().rpartition(") ")[2].split()
    mine = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    systemd = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return systemd + sum(one.ru_utime + one.ru_stime for one in mine)


def timed(work: Callable[..., object], *arguments: Any, **named: Any) -> tuple[float, float]:
    clock, cpu = time.perf_counter(), processor()
    work(*arguments, **named)
    return time.perf_counter() - clock, processor() - cpu


def main() -> None:
    reconcile.reconcile(PLACES)
    grant("loop", UIDS[0], "1")
    before = look()
    command = (*unit(UIDS[0], "--pipe", "--wait", "--unit=granting-loop"), sys.executable, "-c", LOOP)
    loop = subprocess.Popen((*command, str(OVER), str(UIDS[0]), *FILES), stdout=subprocess.PIPE, text=True)
    times: dict[str, list[tuple[float, float]]] = {"grant": [], "end": [], "plain": []}
    for number in range(ROUNDS):
        uid = UIDS[1 + number % (len(UIDS) - 1)]
        times["grant"].append(timed(grant, number, uid, "0"))
        assert find_opened(uid) == FILES[:1]
        times["end"].append(timed(change, end=[f"granting-{number}"]))
        plain = ("systemctl", "set-property", "--runtime", f"user-{uid}.slice")
        times["plain"].append(timed(run, *plain, *gate.properties(gate.allowed(SETTINGS))))
    OVER.touch()
    opened, tries = json.loads(loop.communicate(timeout=60)[0])
    after = look()
    drift = {name: [before[name], after[name]] for name in before if before[name] != after[name]}
    whole = timed(reconcile.reconcile, PLACES)
    print(json.dumps({"times": times, "whole": whole, "drift": drift, "opened": opened, "tries": tries}))


if __name__ == "__main__":
    run("systemctl", "stop", "gpuadmin-gpu-gate.timer")
    for one in UIDS:
        run(*unit(one, f"--unit=granting-{one}"), "sleep", "3600")
    try:
        main()
    finally:
        OVER.touch()
        units = ("granting-loop.service", *(f"granting-{one}" for one in UIDS))
        subprocess.run(("systemctl", "stop", *units), check=False)
        operations.change_grants(
            GrantsOrder(end=["granting-loop", *(f"granting-{one}" for one in range(ROUNDS))]), False, PLACES
        )
        run("systemctl", "start", "gpuadmin-gpu-gate.timer")
        OVER.unlink()

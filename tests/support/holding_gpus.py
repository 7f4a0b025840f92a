"""People who hold GPUs of node1, and `gpuadmin idle --act` with shorter hours."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support import fake_driver, fake_nvml
from tests.support.fake_driver import FIRST
from tests.support.lab_cluster import PATIENCE, Cluster

HOUR = 30  # seconds
#: gpuadmin, with shorter hours for who was told when. What Prometheus is asked for are real ones.
SOONER = f"from gpuadmin.monitoring import policy; policy.HOUR = {HOUR}.0; from gpuadmin.cli import main; main()"
HOLD = "exec /bin/sleep 100000 3</dev/nvidia0"
#: Two GPUs that the driver lists nobody on, and that compute nothing.
NOBODY = re.sub(r"\[process\]\npid = .*\nmemory = .*\n", "", fake_nvml.described(("utilization", "0"), gpu=0))


def used_by(cluster: Cluster, *pids: int, text: str = NOBODY) -> None:
    """Have the driver of node1 list these processes on the first GPU."""
    first, rest = text.rsplit("[gpu]\n", 1)
    listed = "".join(f"[process]\npid = {pid}\nmemory = 1073741824\n" for pid in pids)
    fake_driver.describe(cluster, "node1", f"{first}{listed}[gpu]\n{rest}")


def background(cluster: Cluster, name: str, command: str) -> int:
    """A process of somebody's on node1 that outlives their session; its id."""
    line = f"setsid /bin/sh -c {shlex.quote(command)} >/dev/null 2>&1 </dev/null & echo $!"
    return int(cluster.person(name, "node1", line))


def running(cluster: Cluster, *pids: int) -> list[bool]:
    lines = cluster.admin("node1", "; ".join(f"test -e /proc/{pid}/exe && echo yes || echo no" for pid in pids))
    return [line == "yes" for line in lines.split()]


def act(cluster: Cluster, mails: Path, *arguments: str) -> dict[str, Any]:
    """What `gpuadmin idle --act` says it does, or has done."""
    line = [sys.executable, "-c", SOONER, "idle", "--site", str(cluster.site), "--act", "--mail-dir", str(mails)]
    done = subprocess.run(
        [*line, "--json", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)["result"]
    return found


def policy(found: dict[str, Any]) -> dict[str, str]:
    """What is done about whom."""
    return {step["row"]["user"]: step["what"] for step in found["steps"]}


def held(cluster: Cluster) -> set[tuple[str, str]]:
    """Who holds the first GPU of node1, as the node itself says: user, container."""
    devices = cluster.gpuadmin("top", "--local")["result"]["nodes"]["node1"]["devices"]
    return {(one["user"], one["container"]) for device in devices if device["uuid"] == FIRST
            for one in device["holders"] or ()}  # fmt: skip

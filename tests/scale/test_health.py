"""A node's check of each minute: it takes less than a second, and one per cent of a core."""

import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.fake_slurm import slurm
from tests.support.gpu_node import Node, node

__all__ = ["node"]
MINUTE = 60
#: Before all else on this machine, where that is allowed: what others do on it is not measured.
FIRST = ["chrt", "--fifo", "1"] if subprocess.run(["chrt", "--fifo", "1", "true"], check=False).returncode == 0 else []
CHECK = """
import sys
sys.path[:0] = sys.argv[4:]
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import draining
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.gate import Places
root, state, run = sys.argv[1:4]
draining.Places = lambda: Places(state, run, f"{state}/gate.json", root=root)
draining.main()
"""


def take(command: list[str]) -> tuple[float, float]:
    """Seconds from its start to its end, and of a core."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "Error" not in done.stdout + done.stderr, done
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, used


@pytest.mark.slow
@pytest.mark.needs("cc")
def test_a_check_of_each_minute(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node.whole()
    slurm(tmp_path, monkeypatch, sinfo="echo 'gpu1|idle|none'", scontrol="exit 0")
    (tmp_path / "state").mkdir()
    monkeypatch.setenv("SLURMD_NODENAME", "gpu1")
    places = [str(node.root), str(tmp_path / "state"), str(tmp_path / "run")]
    check = [*FIRST, sys.executable, "-IB", "-c", CHECK, *places, *sys.path[1:]]
    taken = [take(check) for _ in range(11)][1:]  # the first turn fills the caches
    assert (tmp_path / "run/health.json").exists()
    wall, core = (statistics.median(one[at] for one in taken) for at in (0, 1))
    print(f"a check: {wall:.2f} s, {core:.2f} s of a core each minute")
    assert core / MINUTE < 0.01
    assert wall < 1

"""How well a job uses its GPUs, as its node sees it, and what the accounting is told."""

import json
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import job_use

from tests.support.gated_host import gated_host

pytestmark = pytest.mark.root
G = 1 << 30


def text(active: float, memory: int) -> str:
    """What the node has measured of two GPUs of minji's job, of which she uses one, and of another's."""
    lines = [f'gpuadmin_gpu_active_seconds_total{{uuid="GPU-1",user="minji"}} {active}']
    lines += ['gpuadmin_gpu_active_seconds_total{uuid="GPU-1",user="jiho"} 999']
    lines += ['gpuadmin_gpu_active_seconds_total{uuid="GPU-9",user="minji"} 999']
    for uuid in ("GPU-1", "GPU-2"):
        lines.append(f'gpuadmin_gpu_memory_used_bytes{{uuid="{uuid}"}} {memory}')
        lines.append(f'gpuadmin_gpu_memory_size_bytes{{uuid="{uuid}"}} {80 * G}')
    return "\n".join(lines) + "\n"


def test_a_job_is_looked_at_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = gated_host(tmp_path, monkeypatch)
    now = int(time.time())
    grant = Grant("slurm-7", "minji", 20000, ["GPU-1", "GPU-2"], now, now + 3600, "Slurm", "job 7", "slurm")
    grants.write_until_boot(grant, host.places.run)
    clock = iter([1000.0, 1060.0, 1100.0])
    monkeypatch.setattr(job_use.time, "time", lambda: next(clock))
    told: list[tuple[str, ...]] = []
    places = job_use.Places(
        state=host.places.state, run=host.places.run, command=lambda words: told.append(tuple(words))
    )
    job_use.look(places, text=text(500, G))
    (tmp_path / "mapper").mkdir()
    (tmp_path / "mapper/a.prom").write_text(text(530, 9 * G))
    monkeypatch.setattr(job_use, "MEASURED", f"{tmp_path}/*/*.prom")
    job_use.look(places)
    job_use.look(places, "7", text=text(550, 2 * G))
    ((*_, where, _, comment),) = told
    assert where == "jobid=7"
    assert comment == f"SystemComment=gpu=0.250 memory={18 * G} size={160 * G}"


def test_where_nobody_measures_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = gated_host(tmp_path, monkeypatch)
    grants.write_until_boot(Grant("slurm-7", "minji", 20000, ["GPU-1"], 1, 2, "Slurm", "", "slurm"), host.places.run)
    for measured in ("", text(1, 1).replace("GPU-1", "GPU-5"), text(1, 1)):  # the last: begun since the last look
        job_use.look(host.places, "7", text=measured)
    (Path(host.places.run) / job_use.FILE).write_text("{")
    job_use.look(host.places, "7", text=text(1, 1))
    assert host.told == []
    (Path(host.places.run) / job_use.FILE).write_text(json.dumps({"slurm-7": {"since": "x"}}))
    job_use.look(host.places, "7", text=text(1, 1))
    assert host.told == []

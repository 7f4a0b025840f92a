"""What the kernel counts of each person."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import slices
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.exposition import Samples

from tests.support.metrics_text import values


def test_everybody_who_runs_something(tmp_path: Path) -> None:
    for uid in (1001, 1009):
        at = tmp_path / f"user.slice/user-{uid}.slice"
        at.mkdir(parents=True)
        (at / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\nsystem_usec 2\n")
        (at / "memory.current").write_text("4096\n")
        (at / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
        (at / "pids.current").write_text("5\n")
        (at / "io.stat").write_text("8:0 rbytes=10 wbytes=20 rios=1 wios=1\n8:16 rbytes=1 wbytes=2\n")
    (tmp_path / "user.slice/user-x.slice").mkdir()
    (tmp_path / "user.slice/user-1002.slice").mkdir()
    samples = Samples()
    slices.put(samples, {1001: "alice", 1002: "bob"}.get, str(tmp_path))
    assert values(samples.render()) == {
        'gpuadmin_user_cpu_seconds_total{user="alice"}': 2.5,
        'gpuadmin_user_memory_bytes{user="alice"}': 4096,
        'gpuadmin_user_oom_kills_total{user="alice"}': 2,
        'gpuadmin_user_tasks{user="alice"}': 5,
        'gpuadmin_user_io_read_bytes_total{user="alice"}': 11,
        'gpuadmin_user_io_written_bytes_total{user="alice"}': 22,
    }, "who is not an account is left out, and what is not counted is not zero"


def test_a_host_that_counts_nothing_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        slices.put(Samples(), str, str(tmp_path))

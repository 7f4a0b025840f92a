"""The queue as metrics; one that does not answer is said to, and nothing else of it."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import queueing

from tests.support.fake_slurm import row, slurm

UP = "echo 'Slurmctld(primary) at storage1 is UP'"


def test_what_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        row("4", "minji", "RUNNING", end=2000, nodes="gpu2", tres="cpu=1,gres/gpu=2"),
        row("7", "minji", "RUNNING", end=3000, nodes="gpu1", qos="exception"),
        row("5", "jiho", "PENDING", asked=900, reason="Priority"),
        row("6", "jiho", "RUNNING", end=3000, nodes="gpu1", tres="cpu=1"),
    ]
    (tmp_path / "said").write_text("\n".join(rows))
    (tmp_path / "noted").write_text('7\x1f{"id": "a1", "who": "kim@ctl", "reason": "paper \\"x\\""}\x1f')
    slurm(
        tmp_path, monkeypatch, scontrol=UP, sacctmgr="echo gpu",
        squeue=f'case "$*" in *--jobs=7*) cat {tmp_path}/noted;; *) cat {tmp_path}/said;; esac',
        sinfo="echo 'gpu1|idle|none'; echo 'gpu2|drained|Prolog error'",
    )  # fmt: skip
    assert queueing.main(str(tmp_path / "out")) == 0
    text = (tmp_path / "out/queue.prom").read_text()
    assert 'gpuadmin_queue_allocated_gpus{user="minji",account="people"} 3\n' in text
    assert 'gpuadmin_queue_place{id="5",user="jiho",account="people",gpus="1",why="priority"} 1\n' in text
    assert 'gpuadmin_queue_waiting_since_timestamp_seconds{id="5",user="jiho"} 900\n' in text
    assert 'until_timestamp_seconds{id="4",user="minji",account="people",gpus="2",nodes="gpu2"} 2000\n' in text
    assert 'gpuadmin_queue_node_closed{node="gpu2",state="drained",reason="Prolog error"} 1\n' in text
    assert 'gpuadmin_queue_exception{id="7",who="kim@ctl",reason="paper \\"x\\""} 1\n' in text
    assert text.count("gpuadmin_queue_exception{") == 1
    assert 'node="gpu1"' not in text
    assert "gpuadmin_queue_up 1\n" in text
    assert "gpuadmin_queue_accounting_up 1\n" in text
    assert 'id="6"' not in text, "a job without GPUs"


@pytest.mark.holds("a queue that nobody knows is not an empty one")
def test_a_controller_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm(tmp_path, monkeypatch, scontrol="echo down", sacctmgr="exit 1")
    assert queueing.main(str(tmp_path / "out")) == 0
    text = (tmp_path / "out/queue.prom").read_text()
    assert "gpuadmin_queue_up 0\n" in text
    assert "gpuadmin_queue_accounting_up 0\n" in text
    assert "gpuadmin_queue_allocated_gpus" not in text

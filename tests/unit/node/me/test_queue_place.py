"""One's place in the queue, as gpuadmin-me says it."""

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.me import check, overview, queue_place

from gpuadmin.common.causes.cause import Cause
from tests.support.fake_slurm import row, slurm
from tests.support.me_overview import FOUND


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Subject:
    """A node of a queue."""
    (tmp_path / "usr/local/bin").mkdir(parents=True)
    (tmp_path / "usr/local/bin/gpu").touch()
    rows = [
        row("4", "minji", "RUNNING", end=2000000000, nodes="gpu2"),
        row("5", "minji", "PENDING", asked=1900000000, reason="Priority"),
        row("6", "jiho", "PENDING", reason="Resources"),
    ]
    (tmp_path / "said").write_text("\n".join(rows))
    slurm(tmp_path, monkeypatch, scontrol="echo 'at storage1 is UP'", squeue=f"cat {tmp_path}/said")
    return Subject(name="minji", root=str(tmp_path))


def test_ones_own_alone(node: Subject) -> None:
    found: Any = queue_place.find_place(node)
    assert ([one["id"] for one in found["mine"]], found["waiting"]) == (["4", "5"], 2)
    output = overview.lines(node, {**FOUND, "queue": found}, "gpu1", [], "en")
    assert "  GPUs: given by the queue here" in output
    assert any(line.startswith("  You have 1 GPU of gpu2 until 2033-05-18") for line in output)
    (waits,) = [line for line in output if "You are waiting for 1 GPU." in line]
    assert "place in the queue: 2. Others come first" in waits
    assert "(since 2030-03-1" in waits
    nobody = overview.lines(node, {**FOUND, "queue": {"mine": [], "waiting": 3}}, "gpu1", [], "ko")
    assert any("기다리는 사람: 3명" in line for line in nobody)


def test_a_node_without_a_queue_and_one_that_does_not_answer(
    node: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert queue_place.find_place(Subject(name="minji", root=str(tmp_path / "other"))) is None
    slurm(tmp_path, monkeypatch, scontrol="echo down")
    with pytest.raises(NodeError):
        queue_place.find_place(node)
    output = overview.lines(node, {**FOUND, "queue": "slurmctld does not answer"}, "gpu1", [], "en")
    assert "  queue: not known (slurmctld does not answer)" in output


def test_a_check_tells_whoever_waits_their_place(
    node: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where they have some: they need not ask for what they asked for."""
    lacks = [Cause("gpu-grant", "x", "y")]
    (tmp_path / "said").write_text(row("5", "minji", "PENDING", reason="Resources"))
    first, why = check.lines(lacks, 20, "gpu1", "en", check.find_queued_jobs(node, lacks))
    assert first.startswith("* You are waiting for 1 GPU. Your place in the queue: 1. Next, as soon as")
    assert "GPUs are given on request here" in why
    (tmp_path / "said").write_text(row("4", "minji", "RUNNING", end=2000000000, nodes="gpu2"))
    assert "gpu2의 GPU 1개" in check.lines(lacks, 20, "gpu1", "ko", check.find_queued_jobs(node, lacks))[0]
    assert check.find_queued_jobs(node, [Cause("memory", "x", "y")]) == []
    nobody = check.find_queued_jobs(Subject(name="haeun", root=node.root), lacks)
    assert check.lines(lacks, 20, "gpu1", "en", nobody)[0] == "* To get one: `gpu get`"
    more = [Cause("gpu-granted", "x", "y", values={"gpus": "GPU 0", "until": "18:00"})]
    said = check.lines(more, 20, "gpu1", "en", check.find_queued_jobs(node, more))
    assert said[1] == "- Use GPU 0. If you need more: `gpu get`"
    slurm(tmp_path, monkeypatch, scontrol="echo down")
    assert check.find_queued_jobs(node, lacks) == []


def test_a_check_names_no_queue_where_there_is_none(tmp_path: Path) -> None:
    lacks, without = [Cause("gpu-grant", "x", "y")], Subject(name="minji", root=str(tmp_path))
    for language, way in (
        ("en", "ask your admins, and say for how long"),
        ("ko", "관리자에게 사용 기간과 용도를 알려 신청"),
    ):
        first = check.lines(lacks, 20, "gpu1", language, check.find_queued_jobs(without, lacks))[0]
        assert way in first
        assert "gpu get" not in first

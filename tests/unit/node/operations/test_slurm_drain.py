"""Nodes that are drained and take jobs again: what scontrol is told."""

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.operations.slurm_drain import Document, operate
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.draining import Wanted

from gpuadmin.common.waiting import PASSING
from tests.support.fake_slurm import row, slurm

MARK = "gpuadmin reboot:"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "jobs").write_text(row("4", "minji", "RUNNING", nodes="gpu1") + "\n")
    slurm(
        tmp_path, monkeypatch, squeue=f"cat {tmp_path}/jobs",
        sinfo="printf 'gpu1|mixed|none\\ngpu2|drained|Prolog error\\ngpu3|down*|Not responding\\n'",
        scontrol=f"[ $1 = ping ] && echo 'Slurmctld(primary) at nas is UP' || echo \"$*\" >>{tmp_path}/called",
    )  # fmt: skip
    return tmp_path


def called(place: Path) -> list[str]:
    path = place / "called"
    return path.read_text().splitlines() if path.exists() else []


def test_only_what_takes_jobs_is_drained(place: Path) -> None:
    result = operate(Document(Wanted(["gpu1", "gpu2"], "Prolog error")), False).result()
    assert called(place) == ["update NodeName=gpu1 State=DRAIN Reason=Prolog error"]
    assert "gpu1: takes no further job" in str(result)
    assert "'user': 'minji'" in str(result), "who is there is said"


def test_another_reason_is_written(place: Path) -> None:
    operate(Document(Wanted(["gpu2"], "new image")), False)
    assert called(place) == ["update NodeName=gpu2 State=DRAIN Reason=new image"]


def test_what_takes_no_jobs_takes_them_again(place: Path) -> None:
    operate(Document(Wanted(["gpu1", "gpu2", "gpu3"], resume=True)), False)
    # gpu3 is only away: it takes jobs again once it answers
    assert called(place) == ["update NodeName=gpu2 State=RESUME"]


def test_a_check_changes_nothing(place: Path) -> None:
    assert operate(Document(Wanted(["gpu1"], "x")), True).result()["changed"]
    assert called(place) == []


@pytest.mark.parametrize(
    "wanted", [Wanted(["gpu9"], "x"), Wanted(["gpu1 State=DOWN"], "x"), Wanted(["gpu1"]), Wanted(["gpu1"], "a\nb")]
)
@pytest.mark.holds("only a node that Slurm has named is given to its programs")
def test_what_is_refused(place: Path, wanted: Wanted) -> None:
    with pytest.raises(NodeError):
        operate(Document(wanted), False)
    assert called(place) == []


def verb(*nodes: str, **more: Any) -> Wanted:
    return Wanted(list(nodes), "" if more.get("resume") else "by root@ctl", mark=MARK, **more)


@pytest.mark.holds(
    "a verb lets take jobs again only what it has drained itself",
    "a verb does not drain once more what somebody has drained",
)
def test_a_verb_leaves_alone_what_somebody_else_has_drained(place: Path) -> None:
    operate(Document(verb("gpu1", "gpu2", "gpu3", "gpu9")), False)
    assert called(place) == [f"update NodeName=gpu1,gpu3 State=DRAIN Reason={MARK} by root@ctl"]
    (place / "called").unlink()
    slurm(place, pytest.MonkeyPatch(), sinfo=f"printf 'gpu1|drained|{MARK} by x\\ngpu2|drained|Prolog error\\n'")
    operate(Document(verb("gpu1", "gpu2", resume=True)), False)
    assert called(place) == ["update NodeName=gpu1 State=RESUME"]


@pytest.mark.parametrize("reason", [f"{PASSING[0]} /local", PASSING[1]])
def test_a_verb_takes_over_what_would_pass_by_itself(place: Path, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    slurm(place, monkeypatch, sinfo=f"echo 'gpu1|drained|{reason}'")
    operate(Document(verb("gpu1")), False)
    assert called(place) == [f"update NodeName=gpu1 State=DRAIN Reason={MARK} by root@ctl"]


def test_a_verb_waits_for_jobs(place: Path) -> None:
    result = operate(Document(verb("gpu1", empty=True)), False).result()
    assert (result["failed"], result["msg"]) == (True, "in use by minji (job 4)")
    assert "failed" not in operate(Document(verb("gpu1", empty=True, force=True)), False).result()
    assert "failed" not in operate(Document(verb("gpu3", empty=True)), False).result()


@pytest.mark.holds("where Slurm's controller does not answer a node is taken away by force alone")
def test_a_controller_that_does_not_answer(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm(place, monkeypatch, scontrol="echo 'Slurmctld(primary) at nas is DOWN'")
    with pytest.raises(NodeError, match="does not answer"):
        operate(Document(verb("gpu1")), False)
    with pytest.raises(NodeError, match="does not answer"):
        operate(Document(Wanted(["gpu1"], "x", force=True)), False)
    assert "a job may start there" in str(operate(Document(verb("gpu1", force=True)), False).result()["remarks"])


def test_where_there_is_no_queue_yet_nothing_is_drained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert operate(Document(verb("gpu1")), False).result()["changed"] is False

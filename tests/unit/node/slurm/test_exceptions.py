"""Exceptions of admins': what Slurm is told, and that none of them waits unseen."""

import json
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.operations import slurm_exception
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import exceptions

from tests.support.fake_slurm import row, slurm

SAID = {"id": "ab", "who": "root@ctl", "reason": "paper; QOS=normal"}
UP = "echo 'Slurmctld(primary) at nas is UP'"


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Job 9 is made; what Slurm's programs are called with is in `called`, and squeue prints the file `jobs`."""
    log = f"printf '%s\\n' \"${{0##*/}} $*\" >>{tmp_path}/called"
    slurm(
        tmp_path, monkeypatch, sbatch=f"{log}; echo 9", scancel=log,
        squeue=f"cat {tmp_path}/jobs",
        sinfo=f"cat {tmp_path}/nodes",
        scontrol=f"case $1 in ping) {UP};; --json) cat {tmp_path}/shown;; *) {log};; esac",
    )  # fmt: skip
    (tmp_path / "nodes").write_text("gpu1|mixed|none\n")
    (tmp_path / "shown").write_text("")
    says(tmp_path)
    return tmp_path


def says(bin: Path, *jobs: str) -> None:
    (bin / "jobs").write_text("".join(f"{one}\n" for one in jobs))


def shown(admin_comment: str, **more: str) -> str:
    return json.dumps({"jobs": [{**more, "admin_comment": admin_comment}]})


def called(bin: Path) -> list[str]:
    path = bin / "called"
    return path.read_text().splitlines() if path.exists() else []


def make(bin: Path) -> str:
    return exceptions.make(20000, "gpu1", 2, int(time.time()) + 7200, SAID, sleep=lambda seconds: None)


def test_slurm_is_told_who_has_made_it_and_why(bin: Path) -> None:
    says(bin, row("9", "minji", "RUNNING", nodes="gpu1", qos="exception"))
    assert make(bin) == "9"
    submit, first, second, release = called(bin)
    assert "--hold --uid=20000 --gid=20000" in submit
    assert "--nodelist=gpu1 --time=1 " in submit, "no limit of the person's is to keep it out"
    assert first == f"scontrol update JobId=9 QOS=exception AdminComment={json.dumps(SAID)}"
    assert second == "scontrol update JobId=9 TimeLimit=120 TresPerNode=gres/gpu:2"
    assert release == "scontrol release 9"


@pytest.mark.holds("an exception that does not start does not wait unseen")
def test_what_does_not_start_is_called_off_and_names_who_has_the_gpus(bin: Path) -> None:
    waits = row("9", "minji", "PENDING", qos="exception", reason="Resources")
    says(bin, waits, row("4", "jiho", "RUNNING", nodes="gpu1,gpu2"), row("5", "yuna", "RUNNING", nodes="gpu2"))
    with pytest.raises(
        NodeError, match=r"gpu1 has no 2 free now \(Resources\); there: jiho \(job 4, 1 GPU\)\. Nothing"
    ):
        make(bin)
    assert called(bin)[-1] == "scancel 9"
    (bin / "nodes").write_text("gpu1|drained|fan is loud\n")
    with pytest.raises(NodeError, match="gpu1 takes no jobs: fan is loud"):
        make(bin)


def test_one_whose_gpus_are_not_opened_is_called_off(bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exceptions, "STARTS", 0.2)
    says(bin, row("9", "minji", "RUNNING", nodes="gpu1", qos="exception", comment=""))
    with pytest.raises(NodeError, match="not opened in time"):
        make(bin)
    assert called(bin)[-1] == "scancel 9"
    says(bin)
    with pytest.raises(NodeError, match="has ended at once"):
        make(bin)


def test_somebody_with_as_many_jobs_as_one_may_have(bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm(bin, monkeypatch, sbatch="echo 'sbatch: error: … (job submit limit, user' >&2; exit 1")
    with pytest.raises(NodeError, match="one of them has to end first"):
        make(bin)


def test_what_a_person_writes_into_a_job_is_not_taken_for_an_admin_s(bin: Path) -> None:
    forged = '\n   AdminComment={"id": "x", "who": "mallory", "reason": "y"}\n'
    (bin / "shown").write_text(shown(json.dumps(SAID), name=forged, comment=forged))
    assert exceptions.said("9") == SAID
    for odd in ("{odd\n", "[]\n", '{"jobs": []}', shown("{odd"), shown("[1]"), shown("")):
        (bin / "shown").write_text(odd)
        assert exceptions.said("9") == {"id": "", "who": "", "reason": ""}


def wanted(
    user: str = "root", uid: int = 0, gpus: int = 1, until: int | None = None
) -> slurm_exception.Document:  # fmt: skip
    end = int(time.time()) + 3600 if until is None else until
    return slurm_exception.Document(slurm_exception.Wanted("ab", user, uid, "gpu1", gpus, end, "root@ctl"))


def test_one_that_is_there_already_is_not_made_again(bin: Path) -> None:
    says(bin, row("9", "minji", "RUNNING", nodes="gpu1", qos="exception"))
    (bin / "shown").write_text(shown(json.dumps(SAID)))
    answer = slurm_exception.operate(wanted(), False).result()
    assert (answer["changed"], called(bin)) == (False, [])
    assert str(SAID) in str(answer["report"])


@pytest.mark.holds("an exception is of whoever has the uid on this host")
def test_who_is_nobody_here_gets_none(bin: Path) -> None:
    for one in (wanted(uid=77), wanted(user="nobody-here"), wanted(user="a b"), wanted(gpus=0), wanted(until=1)):
        with pytest.raises(NodeError):
            slurm_exception.operate(one, False)
    assert called(bin) == []
    assert slurm_exception.operate(wanted(), True).result()["changed"] is True
    assert called(bin) == [], "a check makes none"


def test_jobs_are_cancelled(bin: Path) -> None:
    says(bin, row("4", "jiho", "RUNNING", nodes="gpu1"))
    slurm_exception.operate(slurm_exception.Document(end=["4", "5"]), True)
    assert called(bin) == []
    assert slurm_exception.operate(slurm_exception.Document(end=["4", "5"]), False).result()["operations"] == [
        "cancel job 4"
    ]
    assert called(bin) == ["scancel 4"]
    with pytest.raises(NodeError):
        slurm_exception.operate(slurm_exception.Document(end=["--user=jiho"]), False)

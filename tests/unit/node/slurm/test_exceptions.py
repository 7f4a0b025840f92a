"""Exceptions of admins': what Slurm is told, and that none of them waits unseen."""

import json
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, NothingBegun
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import exceptions, operations, queue_report
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.accounts import EXCEPTION

from tests.support.fake_slurm import row, slurm

SAID = {"id": "ab", "who": "root@ctl", "reason": "paper; QOS=normal"}
NOTHING = {"id": "", "who": "", "reason": ""}
UP = "echo 'Slurmctld(primary) at nas is UP'"


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Job 9 is made; what Slurm's programs are called with is in `called`, and squeue prints the file `jobs`."""
    log = f"printf '%s\\n' \"${{0##*/}} $*\" >>{tmp_path}/called"
    slurm(
        tmp_path, monkeypatch, sbatch=f"{log}; echo 9", scancel=log,
        squeue=f"""case "$*" in *admin_comment*) echo "$*" >>{tmp_path}/noted; cat {tmp_path}/shown;;
            *) cat {tmp_path}/jobs;; esac""",
        sinfo=f"cat {tmp_path}/nodes",
        scontrol=f"case $1 in ping) {UP};; *) {log};; esac",
    )  # fmt: skip
    (tmp_path / "nodes").write_text("gpu1|mixed|none\n")
    (tmp_path / "shown").write_text("")
    says(tmp_path)
    return tmp_path


def says(bin: Path, *jobs: str) -> None:
    (bin / "jobs").write_text("".join(f"{one}\n" for one in jobs))


def shown(bin: Path, **comments: str) -> None:
    """What squeue prints of these jobs' AdminComment: `job9="…"`."""
    rows = [f"{job[3:]:<32}\x1f{text:<4096}\x1f\n" for job, text in comments.items()]
    (bin / "shown").write_text("".join(rows))


def called(bin: Path) -> list[str]:
    path = bin / "called"
    return path.read_text().splitlines() if path.exists() else []


def make(bin: Path) -> str:
    return exceptions.make(20000, "gpu1", 2, int(time.time()) + 7200, SAID, sleep=lambda seconds: None)


def test_slurmctld_knows_an_exception_by_its_name() -> None:
    """job_submit.lua lets root alone change what root submits by that name, before it has the QOS as well."""
    text = (Path(__file__).parents[4] / "roles/slurm_controller/files/job_submit.lua").read_text()
    assert f'local EXCEPTION = "{EXCEPTION}"' in text
    assert f"--job-name={EXCEPTION}" in exceptions.command(20000, "gpu1")


@pytest.mark.holds("an exception starts once")
def test_an_exception_starts_once() -> None:
    """`scontrol requeue` is for everybody's own jobs: it would have its time, which the admin has given, again."""
    words = exceptions.command(20000, "gpu1")
    assert "--no-requeue" in words[: words.index(next(one for one in words if one.startswith("--wrap=")))]


def test_slurm_is_told_who_has_made_it_and_why(bin: Path) -> None:
    says(bin, row("9", "minji", "RUNNING", nodes="gpu1", qos="exception"))
    assert make(bin) == "9"
    submit, first, second, release = called(bin)
    assert "--hold --uid=20000 --gid=20000" in submit
    assert "--nodelist=gpu1 --time=1 " in submit, "no limit of the person's is to keep it out"
    assert first == f"scontrol update JobId=9 QOS=exception AdminComment={json.dumps(SAID)}"
    assert second == "scontrol update JobId=9 TimeLimit=120 TresPerNode=gres:gpu:2 Requeue=0"
    assert release == "scontrol release 9"


@pytest.mark.holds("an exception that does not start does not wait unseen")
def test_what_does_not_start_is_called_off_and_names_who_has_the_gpus(bin: Path) -> None:
    waits = row("9", "minji", "PENDING", qos="exception", reason="Resources")
    says(bin, waits, row("4", "jiho", "RUNNING", nodes="gpu1,gpu2"), row("5", "yuna", "RUNNING", nodes="gpu2"))
    with pytest.raises(
        NodeError, match=r"of gpu1 are free now for 2 more \(Resources\); there: jiho \(job 4, 1 GPU\)\. Nothing"
    ):
        make(bin)
    assert called(bin)[-1] == "scancel 9"
    (bin / "nodes").write_text("gpu1|drained|fan is loud\n")
    # what is called off before it began leaves nothing to be done
    with pytest.raises(NothingBegun, match="gpu1 takes no jobs: fan is loud"):
        make(bin)


def test_one_whose_gpus_are_not_opened_is_called_off(bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exceptions, "STARTS", 0.2)
    others = row("4", "jiho", "PENDING", reason="Resources")
    says(bin, row("9", "minji", "RUNNING", nodes="gpu1", qos="exception", comment=""), others)
    with pytest.raises(NodeError, match="not opened in time") as caught:
        make(bin)
    assert not isinstance(caught.value, NothingBegun), "it had begun to run"
    assert called(bin)[-1] == "scancel 9"
    says(bin)
    with pytest.raises(NodeError, match="has ended at once"):
        make(bin)


@pytest.mark.holds("nobody makes more of an exception than an admin has given")
@pytest.mark.parametrize(
    ("nodes", "gpus"), [("gpu1", 8), ("gpu2", 2), ("gpu1,gpu2", 2)], ids=["more", "elsewhere", "on two"]
)
def test_one_that_its_person_has_changed_is_called_off(bin: Path, nodes: str, gpus: int) -> None:
    """Whoever has a job that waits may change what it asks for: `scontrol update JobId=9 TresPerNode=gres/gpu:8`."""
    says(bin, row("9", "minji", "RUNNING", nodes=nodes, qos="exception", tres=f"cpu=1,gres/gpu={gpus}"))
    with pytest.raises(NodeError, match=rf"was changed meanwhile: it has {gpus} GPUs of {nodes}"):
        make(bin)
    assert called(bin)[-1] == "scancel 9"


@pytest.mark.holds("Slurm's programs get nothing but a job's number")
@pytest.mark.parametrize("said", ["", "12,13", "Submitted batch job 12"])
def test_a_job_of_which_nobody_says_the_number(bin: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    slurm(bin, monkeypatch, sbatch=f"echo '{said}'")
    with pytest.raises(NodeError, match="sbatch does not say which job"):
        make(bin)
    assert called(bin) == []


def test_somebody_with_as_many_jobs_as_one_may_have(bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm(bin, monkeypatch, sbatch="echo 'sbatch: error: … (job submit limit, user' >&2; exit 1")
    with pytest.raises(NodeError, match="one of them has to end first"):
        make(bin)


def test_what_cannot_be_read_is_empty(bin: Path) -> None:
    shown(bin, job9=json.dumps(SAID))
    assert exceptions.read_comments(["9"]) == {"9": SAID}
    assert exceptions.read_comments(["8"]) == {"8": NOTHING}
    for odd in ("{odd", "[1]", "", json.dumps(SAID)[:-1]):
        shown(bin, job9=odd)
        assert exceptions.read_comments(["9"]) == {"9": NOTHING}
    (bin / "shown").unlink()
    assert exceptions.read_comments(["9"]) == {"9": NOTHING}
    assert exceptions.read_comments([]) == {}


def test_slurm_is_asked_once_about_all(bin: Path) -> None:
    there = [row(one, "minji", "RUNNING", nodes="gpu1", qos="exception") for one in ("8", "9")]
    says(bin, *there, row("10", "jiho", "RUNNING", nodes="gpu1"))
    shown(bin, job8=json.dumps({**SAID, "reason": "thesis"}), job9=json.dumps(SAID))
    jobs = queue_report.report()["queue"]["jobs"]
    assert [one["exception"] and one["exception"]["reason"] for one in jobs] == ["thesis", SAID["reason"], None]
    (asked,) = (bin / "noted").read_text().rstrip("\n").split("\n")
    assert "--jobs=8,9 " in asked
    says(bin, row("10", "jiho", "RUNNING", nodes="gpu1"))
    queue_report.report()
    assert (bin / "noted").read_text() == f"{asked}\n", "there is none to ask about"


def wanted(
    user: str = "root", uid: int = 0, gpus: int = 1, until: int | None = None
) -> operations.ExceptionOrder:  # fmt: skip
    end = int(time.time()) + 3600 if until is None else until
    return operations.ExceptionOrder(operations.WantedException("ab", user, uid, "gpu1", gpus, end, "root@ctl"))


def test_one_that_is_there_already_is_not_made_again(bin: Path) -> None:
    says(bin, row("9", "minji", "RUNNING", nodes="gpu1", qos="exception"))
    shown(bin, job9=json.dumps(SAID))
    answer = operations.make_exception(wanted(), False).result()
    assert (answer["changed"], called(bin)) == (False, [])
    assert str(SAID) in str(answer["report"])


@pytest.mark.holds("an exception that cannot be read hides no queue")
def test_an_exception_that_cannot_be_read_hides_no_queue(bin: Path) -> None:
    says(bin, row("9", "minji", "RUNNING", nodes="gpu1", qos="exception"))
    (bin / "shown").unlink()
    (one,) = queue_report.report()["queue"]["jobs"]
    assert one["exception"] == {"id": "", "who": "", "reason": ""}


@pytest.mark.holds("an exception is of whoever has the uid on this host")
def test_who_is_nobody_here_gets_none(bin: Path) -> None:
    for one in (wanted(uid=77), wanted(user="nobody-here"), wanted(user="a b"), wanted(gpus=0), wanted(until=1)):
        with pytest.raises(NodeError):
            operations.make_exception(one, False)
    assert called(bin) == []
    assert operations.make_exception(wanted(), True).result()["changed"] is True
    assert called(bin) == [], "a check makes none"


def test_jobs_are_cancelled(bin: Path) -> None:
    says(bin, row("4", "jiho", "RUNNING", nodes="gpu1"))
    operations.make_exception(operations.ExceptionOrder(end=["4", "5"]), True)
    assert called(bin) == []
    assert operations.make_exception(operations.ExceptionOrder(end=["4", "5"]), False).result()["operations"] == [
        "cancel job 4"
    ]
    assert called(bin) == ["scancel 4"]
    with pytest.raises(NodeError):
        operations.make_exception(operations.ExceptionOrder(end=["--user=jiho"]), False)

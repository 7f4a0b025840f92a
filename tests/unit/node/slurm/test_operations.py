"""Operations on Slurm: what sacctmgr, scancel and scontrol are told, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import operations, queue
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.draining import Wanted
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.operations import DrainOrder, drain_nodes

from gpuadmin.common.records.queue import Group
from gpuadmin.common.waiting import PASSING
from tests.support.fake_slurm import reservation, row, slurm

DOCUMENT = operations.SlurmAccounts(
    users=json.dumps([{"name": "minji"}, {"name": "jiho", "locked": True, "uid": 20001}]),
    groups=[Group("people", 10, 24, 20)],
)
#: sacctmgr, whose cluster has registered where the file is there.
SACCTMGR = """case "$*" in
*'show cluster'*) [ -e {0}/registered ] && echo 'lab|10.0.0.9' || echo 'lab|' ;;
*'show assoc'*) printf 'people||10|\\npeople|jiho|1|\\n' ;;
*'show wckey'*) printf 'minji|old\\nminji|0\\njiho|0\\n' ;;
*'show qos'*) printf 'exception||||\\npeople|DenyOnLimit||1-00:00:00|20\\n' ;;
*) echo "$*" >>{0}/called ;;
esac"""


#: jiho's account is gone from the queue's host.
JOBS = [(4, "nobody", 20001), (5, "minji", 20000), (6, "20001", 20001)]


@pytest.fixture
def accounting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    jobs = "".join(f"{job:<24}\x1f{name:<64}\x1f{uid:<24}\x1f\n" for job, name, uid in JOBS)
    (tmp_path / "jobs").write_text(jobs)
    slurm(
        tmp_path, monkeypatch, sacctmgr=SACCTMGR.format(tmp_path), squeue=f"cat {tmp_path}/jobs",
        scancel=f'echo "scancel $*" >>{tmp_path}/called',
    )  # fmt: skip
    monkeypatch.setattr(operations, "REGISTERED", 0.1)
    return tmp_path


def test_who_is_new_and_who_is_locked(accounting: Path) -> None:
    (accounting / "registered").touch()
    operations.converge_slurm_accounts(DOCUMENT, False)
    assert (accounting / "called").read_text().splitlines() == [
        "-i modify user where name=jiho account=people set maxsubmitjobs=0",
        "-i add user minji account=people qos=people defaultqos=people",
        "-i delete user where name=minji wckey=old",
        "scancel 4 6",
    ]


@pytest.mark.holds("what runs or waits of whoever is locked ends, also what an earlier run could not cancel")
def test_jobs_of_whoever_was_locked_before_end_too(accounting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was cut off, or that Slurm refused, had locked them already."""
    (accounting / "registered").touch()
    locked = SACCTMGR.format(accounting).replace("jiho|1|", "jiho|1|0")
    slurm(accounting, monkeypatch, sacctmgr=locked)
    operations.converge_slurm_accounts(DOCUMENT, False)
    assert (accounting / "called").read_text().splitlines()[-1] == "scancel 4 6"
    slurm(accounting, monkeypatch, squeue="echo 'slurm_load_jobs error: no controller' >&2; exit 1")
    with pytest.raises(NodeError, match="may still run or wait: no controller"):
        operations.converge_slurm_accounts(DOCUMENT, False)


@pytest.mark.holds("what Slurm refuses of one keeps nobody else from their account")
def test_what_is_refused_is_told_and_ends_nothing(accounting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (accounting / "registered").touch()
    slurm(accounting, monkeypatch, scancel="echo 'scancel: error: no' >&2; exit 1")
    with pytest.raises(NodeError, match="no"):
        operations.converge_slurm_accounts(DOCUMENT, False)
    assert "add user minji" in (accounting / "called").read_text()


def test_a_job_that_runs_keeps_its_group_for_a_while(accounting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (accounting / "registered").touch()
    refused = "*'delete user where name=minji'*) echo ' Error with request: Job(s) active, cancel' >&2; exit 1 ;;\n*)"
    active = SACCTMGR.format(accounting).replace("people|jiho|1|", "people|jiho|1|\\nold|minji|1|")
    slurm(accounting, monkeypatch, sacctmgr=active.replace("*) echo", f"{refused} echo"))
    result = str(operations.converge_slurm_accounts(DOCUMENT, False).result())
    assert "name=minji account=old set maxsubmitjobs=0" in result
    assert "delete user where name=minji account=old" not in result


def test_only_what_has_not_begun_is_taken_from_who_is_locked(accounting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has begun is used by jobs, which end meanwhile; and where slurmctld does not say, people are locked."""
    (accounting / "registered").touch()
    found = [
        reservation(f"gpu-book-jiho-{number}", "jiho", "gpu1", begin) for number, begin in ((1, 1), (2, 3_000_000_000))
    ]
    (accounting / "reserved").write_text("".join(found))
    answers = f'ping) echo "at nas is UP";; *reservation) cat {accounting}/reserved'
    slurm(accounting, monkeypatch, scontrol=f'case "$*" in {answers};; *) echo "$*" >>{accounting}/called;; esac')
    operations.converge_slurm_accounts(DOCUMENT, False)
    assert (accounting / "called").read_text().splitlines()[1] == "delete ReservationName=gpu-book-jiho-2"


def test_a_check_says_it_and_does_nothing(accounting: Path) -> None:
    (accounting / "registered").touch()
    result = operations.converge_slurm_accounts(DOCUMENT, True).result()
    assert "Slurm: scancel 4 6" in str(result)
    assert not (accounting / "called").exists()


def test_nobody_is_added_before_the_cluster_has_registered(accounting: Path) -> None:
    with pytest.raises(NodeError, match="slurmctld has not registered"):
        operations.converge_slurm_accounts(DOCUMENT, False)
    assert not (accounting / "called").exists()


def test_where_slurm_is_not_set_up_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NodeError, match="gpuadmin provision"):
        operations.converge_slurm_accounts(DOCUMENT, False)
    assert "add user minji" in str(operations.converge_slurm_accounts(DOCUMENT, True).result())


@pytest.mark.parametrize(("installed", "offered"), [([24, 5], "bookworm"), (None, "noble"), (None, "")])
def test_a_slurmd_that_the_controller_does_not_understand(
    installed: list[int] | None, offered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is installed counts, and before that what the host's distribution has."""
    monkeypatch.setattr(queue, "version", lambda daemon: {"slurmctld": installed}[daemon])
    monkeypatch.setattr(operations, "os_release", lambda: {"VERSION_CODENAME": offered})
    assert operations.check_order(operations.SlurmOrder("23.11"), True).result()["changed"] is False
    for odd, words in (("26.05", "upgrade slurmdbd and"), ("21.08", "does not understand it")):
        with pytest.raises(NodeError, match=words):
            operations.check_order(operations.SlurmOrder(odd), True)


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
    result = drain_nodes(DrainOrder(Wanted(["gpu1", "gpu2"], "Prolog error")), False).result()
    assert called(place) == ["update NodeName=gpu1 State=DRAIN Reason=Prolog error"]
    assert "gpu1: takes no further job" in str(result)
    assert "'user': 'minji'" in str(result), "who is there is said"


def test_another_reason_is_written(place: Path) -> None:
    drain_nodes(DrainOrder(Wanted(["gpu2"], "new image")), False)
    assert called(place) == ["update NodeName=gpu2 State=DRAIN Reason=new image"]


def test_what_takes_no_jobs_takes_them_again(place: Path) -> None:
    drain_nodes(DrainOrder(Wanted(["gpu1", "gpu2", "gpu3"], resume=True)), False)
    # gpu3 is only away: it takes jobs again once it answers
    assert called(place) == ["update NodeName=gpu2 State=RESUME"]


def test_a_check_changes_nothing(place: Path) -> None:
    assert drain_nodes(DrainOrder(Wanted(["gpu1"], "x")), True).result()["changed"]
    assert called(place) == []


@pytest.mark.parametrize(
    "wanted", [Wanted(["gpu9"], "x"), Wanted(["gpu1 State=DOWN"], "x"), Wanted(["gpu1"]), Wanted(["gpu1"], "a\nb")]
)
def test_what_is_refused(place: Path, wanted: Wanted) -> None:
    with pytest.raises(NodeError):
        drain_nodes(DrainOrder(wanted), False)
    assert called(place) == []


def verb(*nodes: str, **more: Any) -> Wanted:
    return Wanted(list(nodes), "" if more.get("resume") else "by root@ctl", mark=MARK, **more)


@pytest.mark.holds(
    "a verb lets take jobs again only what it has drained itself",
    "a verb does not drain once more what somebody has drained",
)
def test_a_verb_leaves_alone_what_somebody_else_has_drained(place: Path) -> None:
    drain_nodes(DrainOrder(verb("gpu1", "gpu2", "gpu3", "gpu9")), False)
    assert called(place) == [f"update NodeName=gpu1,gpu3 State=DRAIN Reason={MARK} by root@ctl"]
    (place / "called").unlink()
    slurm(place, pytest.MonkeyPatch(), sinfo=f"printf 'gpu1|drained|{MARK} by x\\ngpu2|drained|Prolog error\\n'")
    drain_nodes(DrainOrder(verb("gpu1", "gpu2", resume=True)), False)
    assert called(place) == ["update NodeName=gpu1 State=RESUME"]


@pytest.mark.parametrize("reason", [f"{PASSING[0]} /local", PASSING[1]])
def test_a_verb_takes_over_what_would_pass_by_itself(place: Path, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    slurm(place, monkeypatch, sinfo=f"echo 'gpu1|drained|{reason}'")
    drain_nodes(DrainOrder(verb("gpu1")), False)
    assert called(place) == [f"update NodeName=gpu1 State=DRAIN Reason={MARK} by root@ctl"]


def test_a_verb_waits_for_jobs(place: Path) -> None:
    result = drain_nodes(DrainOrder(verb("gpu1", empty=True)), False).result()
    assert (result["failed"], result["msg"]) == (True, "in use by minji (job 4)")
    assert "failed" not in drain_nodes(DrainOrder(verb("gpu1", empty=True, force=True)), False).result()
    assert "failed" not in drain_nodes(DrainOrder(verb("gpu3", empty=True)), False).result()


@pytest.mark.holds("where Slurm's controller does not answer a node is taken away by force alone")
def test_a_controller_that_does_not_answer(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm(place, monkeypatch, scontrol="echo 'Slurmctld(primary) at nas is DOWN'")
    with pytest.raises(NodeError, match="does not answer"):
        drain_nodes(DrainOrder(verb("gpu1")), False)
    with pytest.raises(NodeError, match="does not answer"):
        drain_nodes(DrainOrder(Wanted(["gpu1"], "x", force=True)), False)
    assert "a job may start there" in str(drain_nodes(DrainOrder(verb("gpu1", force=True)), False).result()["remarks"])


def test_where_there_is_no_queue_yet_nothing_is_drained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert drain_nodes(DrainOrder(verb("gpu1")), False).result()["changed"] is False

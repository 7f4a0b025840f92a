"""`gpuadmin queue`: what it prints of what Slurm says; and that nobody else gives away what the queue has."""

import json
from typing import Any

import pytest

from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Ansible, Cli, ansible

__all__ = ["ansible"]
JOB = {
    "id": "4", "user": "minji", "group": "people", "gpus": 2, "nodes": "node1", "place": 0, "asked": 1, "start": 2,
    "end": 1795608428, "why": "",
}  # fmt: skip
WAITS = {**JOB, "id": "5", "user": "jiho", "nodes": "", "place": 1, "end": None, "why": "others come first"}
NODES = [
    {"name": "node1", "state": "idle", "reason": ""},
    {"name": "node2", "state": "drained", "reason": "Prolog error"},
]


@pytest.fixture
def queue(ansible: Ansible) -> Ansible:
    """A site with a queue."""
    assert ansible.site is not None
    settings = ansible.site / "gpuadmin.yml"
    settings.write_text(f"{settings.read_text()}\nslurm: {{}}\n")
    (ansible.site / "inventory/queue.yml").write_text("slurm: {hosts: {storage1: {}}}\n")
    return ansible


def says(queue: Ansible, *jobs: dict[str, Any]) -> None:
    report = {"queue": {"jobs": list(jobs), "nodes": NODES}}
    queue.answer = RunResult({"storage1": HostResult("ok", reports=report)})


def test_who_has_and_who_waits(queue: Ansible, cli: Cli) -> None:
    says(queue, JOB, WAITS)
    code, out, _ = cli("queue")
    assert code == 0
    assert "place 1" in out
    assert "others come first" in out
    assert "node2 takes no jobs (drained): Prolog error" in out
    (asked,) = queue.asked
    assert (asked.playbook, asked.limit, asked.check) == ("queue", "storage1", True)
    code, out, _ = cli("queue", "--json")
    assert json.loads(out)["result"]["hosts"]["storage1"]["jobs"] == [JOB, WAITS]


def test_nobody(queue: Ansible, cli: Cli) -> None:
    says(queue)
    assert "nobody waits for one" in cli("queue")[1]


def test_a_controller_that_does_not_answer_is_not_an_empty_queue(queue: Ansible, cli: Cli) -> None:
    queue.answer = RunResult({"storage1": HostResult("failed", message="slurmctld does not answer")})
    code, out, err = cli("queue")
    assert code == 3
    assert "nobody waits" not in out
    assert "slurmctld does not answer" in out + err


def test_a_site_without_a_queue(ansible: Ansible, cli: Cli) -> None:
    code, _, err = cli("queue")
    assert code == 2
    assert "this site has no queue" in err


@pytest.mark.parametrize(
    ("words", "given", "said"),
    [
        (
            ("drain", "node1", "--reason", "new image"),
            {"reason": "new image", "resume": False},
            "1 job there, the last until",
        ),
        (("resume", "node2"), {"reason": "", "resume": True}, "drained now: Prolog error"),
    ],
)
def test_a_node_is_drained_and_takes_jobs_again(
    queue: Ansible, cli: Cli, words: tuple[str, ...], given: dict[str, Any], said: str
) -> None:
    says(queue, JOB, WAITS)
    code, out, err = cli(*words, "--yes")
    assert code == 0
    assert said in " ".join((out + err).split())
    look, done = queue.asked
    assert (look.playbook, look.check, done.playbook, done.check) == ("queue", True, "drain", False)
    assert done.variables["gpuadmin_drain"] == {"nodes": [words[1]], **given}


def test_what_is_not_drained(queue: Ansible, cli: Cli) -> None:
    says(queue)
    assert cli("drain", "storage1", "--yes")[0] == 2
    assert cli("drain", "node1", "--reason", "a\nb", "--yes")[0] == 2
    queue.answer = RunResult({"storage1": HostResult("failed", message="slurmctld does not answer")})
    assert cli("drain", "node1", "--yes")[0] == 3
    assert all(one.check for one in queue.asked)


@pytest.mark.holds("what an admin has drained is not taken for a verb's")
def test_an_admin_s_reason_is_not_a_verb_s(queue: Ansible, cli: Cli) -> None:
    assert cli("drain", "node1", "--reason", "gpuadmin reboot: x", "--yes")[0] == 2
    assert queue.asked == []


@pytest.mark.holds("an admin grants no GPU that the queue would give to somebody else")
def test_an_exception_is_made_by_slurm_alone(queue: Ansible, cli: Cli) -> None:
    says(queue, JOB)
    code, out, err = cli("grant", "minji", "node1", "--hours", "1", "--reason", "paper", "--yes")
    assert code == 0, err
    assert "there now: minji (job 4, until" in out
    look, done = queue.asked
    assert (look.playbook, done.playbook, done.limit, done.check) == ("queue", "grant", "storage1", False)
    given = done.variables["gpuadmin_exception"]
    assert {name: given[name] for name in ("user", "uid", "node", "gpus", "reason")} == {
        "user": "minji", "uid": 20000, "node": "node1", "gpus": 1, "reason": "paper",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("node1",), 2, "why somebody does not wait has to be said"),
        (("node1", "--reason", "x", "--gpu", "0"), 5, "Slurm chooses which GPUs of node1"),
        (("node1", "--reason", "x", "--mig", "1g.10gb"), 5, "Slurm chooses which GPUs of node1"),
        (("node2", "--reason", "x"), 5, "node2 takes no jobs: Prolog error"),
    ],
)
def test_an_exception_that_is_refused(
    queue: Ansible, cli: Cli, words: tuple[str, ...], code: int, said: str
) -> None:  # fmt: skip
    says(queue)
    found, _, err = cli("grant", "minji", *words, "--hours", "1", "--yes")
    assert (found, said in " ".join(err.split())) == (code, True), err
    assert all(one.check for one in queue.asked)


GRANT = {
    "id": "slurm-4", "user": "minji", "gpus": ["GPU-a"], "until": 1795608428, "who": "Slurm", "reason": "job 4",
}  # fmt: skip


def test_who_has_made_an_exception_is_shown(queue: Ansible, cli: Cli) -> None:
    made = {**JOB, "exception": {"id": "ab", "who": "root@ctl", "reason": "paper"}}
    report = {"queue": {"jobs": [made], "nodes": NODES}}
    queue.answer = RunResult(
        {
            "storage1": HostResult("ok", reports=report),
            "node1": HostResult("ok", reports={"grants": {"access": "granted", "gpus": ["GPU-a"], "grants": [GRANT]}}),
        }
    )
    assert "exception by root@ctl: paper" in cli("queue")[1]
    _, out, _ = cli("grants", "--limit", "node1")
    assert "root@ctl" in out
    assert "exception: paper" in out


@pytest.mark.holds("a grant of a job's ends with the job, or Slurm would give nobody that GPU")
def test_what_the_queue_has_given_is_revoked_by_ending_its_job(queue: Ansible, cli: Cli) -> None:
    answer = {"access": "granted", "gpus": ["GPU-a"], "grants": [GRANT]}
    nodes = {name: HostResult("ok", reports={"grants": answer}) for name in ("node1", "node2")}
    queue.answer = RunResult({**nodes, "storage1": HostResult("changed")})
    code, out, err = cli("revoke", "minji", "--yes")
    assert code == 0, err
    assert "cancel job 4 of the queue" in out
    (done,) = [one for one in queue.asked if not one.check]
    assert (done.playbook, done.limit) == ("grant", "storage1")
    assert done.variables["gpuadmin_cancel"] == ["4"]


RESTORED = {"target": "slurm_acct_db", "backup": "20261221T010203Z-daily", "aside": "slurm_acct_db_before_x"}


@pytest.mark.holds("restore-queue asks before it does something")
def test_the_accounting_is_restored_once_that_is_confirmed(
    queue: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.answer = RunResult({"storage1": HostResult("ok", reports={"restored": RESTORED})})
    with monkeypatch.context() as patch:
        patch.setattr("gpuadmin.session.Session.require_confirmation_possible", lambda session: None)
        patch.setattr("gpuadmin.session.agree", lambda question: False)
        code, _, err = cli("restore-queue")
    assert (code != 0, "not confirmed" in err, {one.check for one in queue.asked}) == (True, True, {True})
    code, out, _ = cli("restore-queue", "--from", "20261221T010203Z-daily", "--yes", "--json")
    assert (code, json.loads(out)["result"]) == (0, {"restored": RESTORED})
    (asked,) = [one for one in queue.asked if not one.check]
    assert (asked.playbook, asked.limit) == ("restore-queue", "storage1")
    assert asked.variables["gpuadmin_restore_queue"] == {"backup": "20261221T010203Z-daily"}


def test_what_is_no_backup_is_not_asked_for(queue: Ansible, cli: Cli) -> None:
    code, _, err = cli("restore-queue", "--from", "../x", "--yes")
    assert (code, "is not the name of a backup" in err, queue.asked) == (2, True, [])


def test_a_queue_that_no_backup_has_is_not_restored(queue: Ansible, cli: Cli) -> None:
    assert queue.site is not None
    (queue.site / "inventory/queue.yml").write_text("slurm: {hosts: {x: {}}}\n")
    code, _, err = cli("restore-queue", "--yes")
    assert (code, "no backup has the accounting of x" in err, queue.asked) == (2, True, [])

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


@pytest.mark.holds("an admin grants no GPU that the queue would give to somebody else")
def test_an_admin_grants_nothing_that_the_queue_has(queue: Ansible, cli: Cli) -> None:
    code, _, err = cli("grant", "minji", "node1", "--hours", "1", "--yes")
    assert code == 5
    assert "Slurm decides who gets the GPUs of node1" in " ".join(err.split())
    assert queue.asked == []


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

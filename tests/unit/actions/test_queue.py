"""`gpuadmin queue`: what it prints of what Slurm says; and that nobody else gives away what the queue has."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gpuadmin.ansible.invocation import Invocation
from gpuadmin.common.waiting import PASSING, SICK
from gpuadmin.results import HostResult, RunResult
from tests.support import queue_verb
from tests.support.fake_ansible import Ansible, Cli, ansible
from tests.support.queue_verb import JOB, NODES, WAITS, queue, says, whole

__all__ = ["ansible", "queue"]


def test_who_has_and_who_waits(queue: Ansible, cli: Cli) -> None:
    says(queue, JOB, WAITS)
    code, out, _ = cli("queue")
    assert code == 0
    assert "place 1" in out
    assert "others come first" in out
    assert "node2 takes no jobs (drained): Prolog error\n    journalctl -u slurmd on the node says what failed" in out
    (asked,) = queue.asked
    assert (asked.playbook, asked.limit, asked.check) == ("queue", "storage1", True)
    code, out, _ = cli("queue", "--json")
    assert json.loads(out)["result"]["hosts"]["storage1"]["jobs"] == [JOB, WAITS]


def test_nobody(queue: Ansible, cli: Cli) -> None:
    says(queue)
    assert "nobody is waiting for one" in cli("queue")[1]


def test_a_controller_that_does_not_answer_is_not_an_empty_queue(queue: Ansible, cli: Cli) -> None:
    queue.answer = RunResult({"storage1": HostResult("failed", message="slurmctld does not answer")})
    code, out, err = cli("queue")
    assert code == 3
    assert "nobody is waiting" not in out
    assert "slurmctld does not answer" in out + err


def test_a_site_without_a_queue(ansible: Ansible, cli: Cli) -> None:
    code, _, err = cli("queue")
    assert code == 2
    lacks, hint = err.splitlines()
    assert lacks.endswith("this site has no queue: gpuadmin.yml has no section slurm")
    assert hint.startswith('Hint: the page "slurm" ')


@pytest.mark.parametrize(
    ("words", "given", "said"),
    [
        (
            ("drain", "node1", "--reason", "new image"),
            {"reason": "new image", "resume": False},
            "1 job there, the last until",
        ),
        (("drain", "node2", "--reason", "a"), {"reason": "a", "resume": False}, "drained now: Prolog error"),
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
    look, *again, done = queue.asked
    assert (look.playbook, look.check, done.playbook, done.check) == ("queue", True, "drain", False)
    assert [(one.playbook, one.limit) for one in again] == ([("list-gpus", words[1])] if given["resume"] else [])
    assert done.variables["gpuadmin_drain"] == {"nodes": [words[1]], **given}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("resume", "node1"), "node1 is not drained (idle)"),
        (("drain", "node2", "--reason", "Prolog error"), "node2 already takes no jobs (drained: Prolog error)"),
        (("drain", "node2"), "node2 already takes no jobs (drained: Prolog error)"),
    ],
)
def test_what_is_so_already_is_no_change(queue: Ansible, cli: Cli, words: tuple[str, ...], said: str) -> None:
    says(queue)
    code, out, err = cli(*words)
    assert (code, said in out, "Nothing to do." in out) == (0, True, True), err
    assert [one.check for one in queue.asked] == [True], "and nobody is asked"
    code, out, _ = cli("resume", "node1", "node2", "--yes")
    assert (code, "node1 is not drained (idle)" in out) == (0, True)
    assert queue.asked[-1].variables["gpuadmin_drain"]["nodes"] == ["node2"]


@pytest.mark.parametrize("state", ["idle", "down"])
def test_resume_is_no_way_out_of_a_node_that_does_not_answer(queue: Ansible, cli: Cli, state: str) -> None:
    nodes = [{"name": "node1", "state": state, "reason": "Not responding"}]
    queue.answer = whole({"jobs": [], "nodes": nodes})
    code, out, _ = cli("resume", "node1")
    assert (code, f"node1 is not drained ({state}). slurmd there does not answer" in out) == (0, True), out


@pytest.mark.parametrize(
    "reason", ["Low RealMemory (reported:1 < 100.00% of configured:2)", "gres/gpu count reported lower than configured"]
)
def test_a_node_that_has_less_than_slurm_was_told_needs_provision(queue: Ansible, cli: Cli, reason: str) -> None:
    nodes = [{"name": "node1", "state": "inval", "reason": reason}, {**NODES[1], "reason": reason}]
    queue.answer = whole({"jobs": [], "nodes": nodes})
    grant = ("grant", "minji", "node1", "--hours", "1", "--reason", "paper", "--yes")
    for words in [("resume", "node1"), ("queue",), ("provision", "--yes"), grant]:
        _, out, err = cli(*words)
        found = " ".join((out + err).split())
        assert f"{reason}" in found
        assert "gpuadmin provision, which tells the queue what it has now; then gpuadmin resume node1" in found, words
    assert cli("drain", "node1")[1].startswith(f"node1 takes no jobs (inval: {reason})")
    # told anew, it is drained all the same, and that is what resume mends
    assert cli("resume", "node2", "--yes")[0] == 0
    assert queue.asked[-1].variables["gpuadmin_drain"]["nodes"] == ["node2"]


@pytest.mark.parametrize(
    ("gpus", "inventory", "said"),
    [(0, None, True), (0, 8, True), (0, 0, False), (8, None, False), (None, None, False)],
)
def test_a_node_without_gpus_in_the_queue_is_named(
    queue: Ansible, cli: Cli, gpus: int | None, inventory: int | None, said: bool
) -> None:
    """Slurm is told of GPUs that a node has when it is set up: before its driver answers it has none."""
    assert queue.site is not None
    number = "{}" if inventory is None else f"{{gpus: {inventory}}}"
    (queue.site / "inventory/numbers.yml").write_text(f"gpu: {{hosts: {{node1: {number}}}}}\n")
    nodes = [{**NODES[0], "gpus": gpus}]
    queue.answer = whole({"jobs": [], "nodes": nodes})
    for words in (("queue",), ("provision", "--yes")):
        _, out, err = cli(*words)
        assert ("node1: 0 GPUs in the queue. gpuadmin list-gpus shows" in " ".join((out + err).split())) == said, words


@pytest.mark.holds("a node that is still sick is not resumed")
def test_a_sick_node_waits_for_an_admin_who_has_mended_it(queue: Ansible, cli: Cli) -> None:
    nodes = [{**one, "state": "drained", "reason": f"{SICK} GPU 0: Xid 48 (memory)"} for one in NODES]
    queue.answer = whole({"jobs": [], "nodes": nodes}, node1=["GPU 0: Xid 48 (memory)", "full disk: /"])
    back = "mend it, or reboot, or reset the GPU and gpuadmin burn-in node1; then gpuadmin resume node1"
    assert back in " ".join(cli("queue")[1].split())
    code, out, err = cli("resume", "node1", "--yes")
    assert (code, queue.asked[-1].playbook) == (5, "list-gpus"), "and Slurm is told nothing"
    assert "node1 takes no jobs yet: GPU 0: Xid 48 (memory); full disk: /" in " ".join((out + err).split())
    # one that is sick, or does not say, keeps no other
    for answer in (queue.answer, RunResult({**queue.answer.hosts, "node1": HostResult("unreachable", message="off")})):
        queue.answer = answer
        _, out, err = cli("resume", "node1", "node2", "--yes")
        assert queue.asked[-1].variables["gpuadmin_drain"]["nodes"] == ["node2"]
        assert "node1 takes no jobs yet" in " ".join((out + err).split())


@pytest.mark.parametrize("reason", [f"{PASSING[0]} /local", *PASSING[1:]])
def test_a_full_node_takes_jobs_again_by_itself(queue: Ansible, cli: Cli, reason: str) -> None:
    nodes = [{"name": "node1", "state": "drained", "reason": reason}]
    queue.answer = whole({"jobs": [], "nodes": nodes})
    by_itself = f"{reason} it takes jobs again by itself once that is over: gpuadmin list-gpus, gpuadmin run"
    assert by_itself in " ".join(cli("queue")[1].split())
    assert "it takes jobs again by itself" in cli("provision", "--yes")[2]
    assert "it takes jobs again by itself" in cli("grant", "minji", "node1", "--hours", "1", "--reason", "x")[2]
    assert cli("resume", "node1", "--yes")[0] == 0
    # who drains it means more than that it is full now
    assert cli("drain", "node1", "--yes")[0] == 0
    assert queue.asked[-1].variables["gpuadmin_drain"]["reason"] == "an admin drains it"


def test_a_node_that_does_not_answer_is_drained_all_the_same(queue: Ansible, cli: Cli) -> None:
    """Slurm itself lets it take jobs as soon as it answers."""
    nodes = [{"name": "node1", "state": "down", "reason": "Not responding"}]
    queue.answer = whole({"jobs": [], "nodes": nodes})
    assert cli("drain", "node1", "--yes")[0] == 0
    assert queue.asked[-1].variables["gpuadmin_drain"]["nodes"] == ["node1"]


def test_what_is_not_drained(queue: Ansible, cli: Cli) -> None:
    says(queue)
    assert cli("drain", "storage1", "--yes")[0] == 2
    assert cli("drain", "node1", "--reason", "a\nb", "--yes")[0] == 2
    queue.answer = RunResult({"storage1": HostResult("failed", message="slurmctld does not answer")})
    assert cli("drain", "node1", "--yes")[0] == 3
    assert all(one.check for one in queue.asked)


@pytest.mark.holds(
    "a node takes no jobs, or takes them again, once that is confirmed",
    "somebody comes before all others once that is confirmed",
)
@pytest.mark.parametrize(
    "words",
    [("drain", "node1"), ("resume", "node2"), ("grant", "minji", "node1", "--hours", "1", "--reason", "paper")],
    ids=["drain", "resume", "exception"],
)
def test_nothing_is_done_that_was_not_confirmed(
    queue: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr("gpuadmin.session.Session.require_confirmation_possible", lambda session: None)
    monkeypatch.setattr("gpuadmin.session.agree", lambda question: False)
    says(queue, JOB)
    code, _, err = cli(*words)
    assert (code != 0, "not confirmed" in err, {one.check for one in queue.asked}) == (True, True, {True})


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
        (("node1",), 2, "does not have to wait"),
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


@pytest.mark.holds("nobody comes before all others where nobody knows who is there")
def test_where_the_queue_does_not_answer_nobody_comes_before_all_others(queue: Ansible, cli: Cli) -> None:
    queue.answer = RunResult({"storage1": HostResult("failed", message="slurmctld does not answer")})
    code, _, err = cli("grant", "minji", "node1", "--hours", "1", "--reason", "paper", "--yes")
    assert (code, "slurmctld does not answer" in err) == (3, True), err
    assert all(one.check for one in queue.asked)


GRANT = {
    "id": "slurm-4", "user": "minji", "gpus": ["GPU-a"], "until": 1795608428, "who": "Slurm", "reason": "job 4",
}  # fmt: skip


def test_who_has_made_an_exception_is_shown(queue: Ansible, cli: Cli) -> None:
    made = {**JOB, "exception": {"id": "ab", "who": "root@ctl", "reason": "paper"}}
    says(queue, made)
    assert "exception by root@ctl: paper" in cli("queue")[1]


@pytest.mark.holds("a grant of a job's ends with the job, or Slurm would give nobody that GPU")
def test_provision_names_the_nodes_that_are_still_drained(
    queue: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm remembers it over the time in which there was no queue."""
    states = [
        {"name": "node1", "state": "drained", "reason": "the queue goes"},
        {"name": "node2", "state": "idle", "reason": "Not responding"},
    ]
    monkeypatch.setattr(queue_verb, "NODES", states)
    says(queue)
    _, out, err = cli("provision", "--yes")
    assert "node1 takes no jobs (drained: the queue goes): gpuadmin resume node1\n" in err
    assert "node2 takes no jobs" not in err, "slurmd there may be starting"
    assert "the queue is removed" not in out
    assert "takes no jobs" not in cli("provision", "--check")[2]


def test_provision_says_that_the_queue_goes(queue: Ansible, cli: Cli) -> None:
    assert queue.site is not None
    settings = queue.site / "gpuadmin.yml"
    settings.write_text(settings.read_text().replace("slurm: {}", ""))
    says(queue)
    _, out, err = cli("provision", "--yes")
    assert "has no section slurm: the queue is removed from node1, node2, storage1, if" in " ".join(out.split())
    assert "takes no jobs" not in err


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


@pytest.mark.holds("who stops it while grants end cancels no job")
def test_who_stops_it_while_grants_end_cancels_no_job(
    queue: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    answer = {"access": "granted", "gpus": ["GPU-a", "GPU-b"], "grants": [GRANT, {**GRANT, "id": "a1"}]}
    queue.answer = RunResult({"node1": HostResult("ok", reports={"grants": answer}), "storage1": HostResult("ok")})

    def run(invocation: Invocation, **callbacks: object) -> RunResult:
        found = queue.run(invocation, **callbacks)
        return replace(found, interrupted=not invocation.check)

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    assert cli("revoke", "minji", "--yes")[0] == 130
    assert [one.variables.get("gpuadmin_cancel") for one in queue.asked if not one.check] == [None]


@pytest.mark.holds("a grant of a job's ends with the job, or Slurm would give nobody that GPU")
def test_a_job_s_grant_stays_where_the_site_has_no_queue_any_more(ansible: Ansible, cli: Cli) -> None:
    """The section was removed from gpuadmin.yml while jobs run: Slurm goes on, and the site does not know it."""
    answer = {"access": "granted", "gpus": ["GPU-a"], "grants": [GRANT]}
    ansible.answer = RunResult({name: HostResult("ok", reports={"grants": answer}) for name in ("node1", "node2")})
    code, out, err = cli("revoke", "minji", "--yes")
    assert code == 0, err
    assert "`scancel 4` on the queue's host ends it" in out + err
    assert [one for one in ansible.asked if not one.check] == []

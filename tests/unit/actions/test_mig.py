"""mig, from its command line to what nodes are asked: a plan by GPU, with who is in the way."""

from pathlib import Path
from typing import Any

import pytest

from gpuadmin.ansible.invocation import Invocation
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Ansible, Cli, ansible

__all__ = ["ansible"]


def step(gpu: int, state: str, words: str, *people: str) -> dict[str, Any]:
    return {"gpu": gpu, "state": state, "words": words, "people": list(people), "commands": []}


FREE = step(0, "change", "3g.40gb, 4g.40gb (now whole)")
HELD = step(1, "waits", "7g.80gb (now whole)", "granted to bob until 2027-01-31 18:00", "minji holds it")
REFUSED = step(2, "refused", "it has no profile 9g.90gb: it has 7g.80gb")
DONE = step(3, "as wanted", "whole")


@pytest.fixture
def nodes(ansible: Ansible) -> Ansible:
    assert ansible.site is not None
    variables = Path(ansible.site) / "inventory/host_vars"
    variables.mkdir(exist_ok=True)
    for name in ("node1", "node2"):
        (variables / f"{name}.yml").write_text("gpus_mig: {0: [3g.40gb, 4g.40gb], 1: [7g.80gb]}\n")
    return ansible


def says(ansible: Ansible, *steps: dict[str, Any], host: str = "node1") -> None:
    ansible.answer = RunResult({host: HostResult("ok", reports={"mig": {"steps": list(steps)}})})


def last(ansible: Ansible) -> Invocation:
    return ansible.asked[-1]


def test_only_free_gpus_are_divided_and_of_the_others_people_are_named(nodes: Ansible, cli: Cli) -> None:
    says(nodes, FREE, HELD, REFUSED, DONE)
    code, out, err = cli("mig", "node1", "--yes")
    assert code == 0, err
    assert "GPU 0: 3g.40gb, 4g.40gb (now whole)" in out
    words = " ".join((out + err).split())
    assert "node1: GPU 1 is left out: granted to bob until 2027-01-31 18:00; minji holds it" in words
    assert "node1: GPU 2 is left out: it has no profile 9g.90gb" in words
    assert "GPU 3" not in words
    looked, run = nodes.asked
    assert (looked.playbook, looked.check, run.check, run.limit) == ("mig", True, False, "node1")
    assert run.variables["gpuadmin_divide_gpus"] == {"node1": [0]}
    assert run.variables["gpuadmin_divide_waiting"] == ""


def test_with_when_idle_people_are_told_and_waited_for(nodes: Ansible, cli: Cli) -> None:
    says(nodes, FREE, HELD, REFUSED)
    code, out, err = cli("mig", "node1", "--when-idle", "--yes")
    assert code == 0, err
    assert "as soon as nobody is on it: granted to bob" in " ".join(out.split())
    assert last(nodes).variables["gpuadmin_divide_gpus"] == {"node1": [0, 1]}
    assert "MIG 구성" in last(nodes).variables["gpuadmin_divide_waiting"]


@pytest.mark.holds("mig asks before it divides a GPU")
def test_without_an_answer_and_in_a_check_nothing_is_divided(nodes: Ansible, cli: Cli) -> None:
    says(nodes, FREE)
    code, _, _ = cli("mig", "node1")
    assert code != 0
    cli("mig", "node1", "--check")
    assert [one.check for one in nodes.asked] == [True] * len(nodes.asked)


def test_nothing_but_people_in_the_way_is_refused(nodes: Ansible, cli: Cli) -> None:
    says(nodes, HELD)
    code, out, err = cli("mig", "node1", "--yes")
    assert code not in (0, 6)
    assert (out + err).count("minji holds it") == 1
    assert "--when-idle waits for people" in err
    says(nodes, DONE)
    code, out, _ = cli("mig", "node1", "--yes")
    assert (code, "Nothing to do" in out) == (0, True)


@pytest.mark.holds("GPUs of the queue are divided only where it can be told")
def test_a_queue_that_cannot_be_told_keeps_its_gpus(nodes: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would give a job a GPU that is gone."""
    site = Path(str(nodes.site))
    (site / "gpuadmin.yml").open("a").write("slurm: {}\n")
    (site / "inventory/queue.yml").write_text("slurm: {hosts: {storage1: {}}}\n")
    silent = RunResult({"storage1": HostResult("failed", message="slurmctld does not answer")})

    def run(asked: Invocation, **more: object) -> RunResult:
        return silent if asked.playbook == "queue" else nodes.run(asked, **more)

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    says(nodes, FREE)
    code, _, err = cli("mig", "node1", "--yes")
    assert (code != 0, "the queue cannot be told that GPUs change: slurmctld does not answer" in err) == (True, True)
    assert [one.check for one in nodes.asked] == [True]


def test_nodes_without_the_setting_are_not_asked(ansible: Ansible, cli: Cli) -> None:
    for words, given in (("MIG anywhere", ()), ("MIG on node1", ("node1",)), ("not in the group gpu", ("storage1",))):
        code, _, err = cli("mig", *given)
        assert (code, words in err) == (2, True)
    assert ansible.asked == []
    assert ansible.site is not None
    (ansible.site / "gpuadmin.yml").open("a").write("gpus: {mig: {0: [7g.80gb]}}\n")
    says(ansible, DONE)
    says(ansible, DONE, host="node2")
    cli("mig", "--yes")
    assert last(ansible).limit in ("node1,node2", "node1:node2", None)

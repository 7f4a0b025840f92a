"""Grants by verbs: until when, what is shown before, what is refused, and what is said of what nodes have done."""

import json
from collections.abc import Callable
from datetime import datetime
from itertools import count
from typing import Any

import pytest

from gpuadmin.actions.grant import Granting, end
from gpuadmin.actions.shared.grants import gpu_words
from gpuadmin.ansible.invocation import Invocation
from gpuadmin.errors import ConfigError
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Ansible, Cli, ansible

__all__ = ["ansible"]
NOW = datetime(2027, 3, 4, 15, 30, 20)


def asked(hours: int | None = None, until: str | None = None) -> Granting:
    return Granting("minji", "gpu1", 1, (), hours, until, "")


@pytest.mark.parametrize(
    ("request_", "when"),
    [
        (asked(hours=8), datetime(2027, 3, 4, 23, 30, 20)),
        (asked(until="tonight"), datetime(2027, 3, 4, 23, 59)),
        (asked(until="18:00"), datetime(2027, 3, 4, 18)),
        (asked(until="2027-03-05"), datetime(2027, 3, 5, 23, 59)),
        (asked(until="2027-03-05T09:00"), datetime(2027, 3, 5, 9)),
    ],
    ids=str,
)
def test_until_when(request_: Granting, when: datetime) -> None:
    assert end(request_, NOW) == when


@pytest.mark.parametrize(
    ("until", "why"),
    [("15:30", "is over"), ("2027-03-03", "is over"), ("tomorrow", "is not a time"), ("", "is not a time")],
)
def test_what_is_not_a_time_to_come(until: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        end(asked(until=until), NOW)


def test_gpus_by_their_places() -> None:
    assert gpu_words(["GPU-b", "GPU-a"], ["GPU-a", "GPU-b"]) == "GPU 1, 0"
    assert gpu_words(["GPU-gone"], ["GPU-a"]) == "GPU GPU-gone"


#: What a node says to a run, given the grant that is asked for.
Node = Callable[[dict[str, Any]], HostResult]
BROKEN = HostResult("unreachable", message="does not answer (connection lost)")


def node(*gpus: str, status: str = "changed", message: str | None = None) -> Node:
    """It grants these; or fails afterwards, for it has found somebody who can open what nobody granted."""

    def says(wanted: dict[str, Any]) -> HostResult:
        grants = [{**wanted, "gpus": list(gpus)}] if wanted and gpus else []
        report = {"access": "granted", "gpus": ["GPU-a", "GPU-b"], "grants": grants}
        return HostResult(status, message=message, reports={"grants": report})

    return says


@pytest.fixture
def grant(ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, Any, str]]:
    """`gpuadmin grant --json`, where a look at the node promises GPU a."""

    looks: dict[str, Node] = {}
    numbers = count()  # runs of one second would be in no order
    monkeypatch.setattr("gpuadmin.records.secrets.token_hex", lambda _: f"{next(numbers):04x}")

    def granted(run: Node, *more: str, kept: str = "") -> tuple[int, Any, str]:
        if kept:  # the node has this grant
            looks[kept] = node("GPU-a", status="ok")

        def answer(invocation: Invocation, **_: object) -> RunResult:
            ansible.asked.append(invocation)
            wanted = invocation.variables["gpuadmin_grant"]["node1"]
            return RunResult({"node1": (looks.get(wanted["id"], node("GPU-a")) if invocation.check else run)(wanted)})

        monkeypatch.setattr("gpuadmin.ansible.runner.run", answer)
        code, out, err = cli("grant", "minji", "node1", "--hours", "1", "--json", "--yes", *more)
        return code, json.loads(out)["result"], err

    return granted


def test_a_grant_is_what_the_node_gave(grant: Callable[..., tuple[int, Any, str]], ansible: Ansible) -> None:
    """Between the look and the run another admin was quicker, and the node has chosen another GPU."""
    code, found, _ = grant(node("GPU-b"))
    assert [one.playbook for one in ansible.asked] == ["grant", "grant"], "what is in the way is found before"
    assert (code, found["grant"]["gpus"]) == (0, ["GPU-b"])
    assert found["grant"]["id"] == found["id"]


def test_a_grant_that_was_given_is_said_though_the_node_found_something_wrong(
    grant: Callable[..., tuple[int, Any, str]],
) -> None:
    code, found, err = grant(node("GPU-a", status="failed", message="ssh.service: /dev/nvidia1 can be opened"))
    assert code != 0
    assert found["grant"]["gpus"] == ["GPU-a"]
    assert "not known" not in err


@pytest.mark.holds("what may have been granted is not granted once more without a word")
@pytest.mark.parametrize("run", [lambda _: BROKEN, lambda _: HostResult("failed", message="out of disk"), node()])
def test_what_may_have_been_granted_is_not_said_to_be(run: Node, grant: Callable[..., tuple[int, Any, str]]) -> None:
    """Its node had written it when ssh broke. Another id would be another grant, of one more GPU."""
    _, found, err = grant(run)
    assert found["grant"] is None
    assert f"gpuadmin grants shows it as {found['id']}" in " ".join(err.split())


@pytest.mark.holds("what may have been granted is found by the same command")
def test_the_same_command_finds_what_was_granted_when_ssh_broke(grant: Callable[..., tuple[int, Any, str]]) -> None:
    _, lost, _ = grant(lambda _: BROKEN)
    _, again, _ = grant(lambda _: BROKEN, "-v")
    assert again["id"] == lost["id"], "it broke twice; how it is run is not what is asked for"
    _, other, _ = grant(lambda _: BROKEN, "--reason", "another")
    assert other["id"] != lost["id"]
    code, found, err = grant(node("GPU-b"), kept=lost["id"])
    assert (code, found["grant"]["gpus"], found["id"]) == (0, ["GPU-a"], lost["id"]), "no second one"
    assert "node1 has granted it already: GPU 0 until" in " ".join(err.split())
    _, more, _ = grant(node("GPU-b"))
    assert (more["id"] != lost["id"], more["grant"]["gpus"]) == (True, ["GPU-b"]), "known by now: it is one more"
    _, further, _ = grant(node("GPU-b"))
    assert further["id"] != more["id"]


def test_the_same_command_finds_what_a_killed_run_has_granted(
    grant: Callable[..., tuple[int, Any, str]], ansible: Ansible
) -> None:
    _, lost, _ = grant(lambda _: BROKEN)
    assert ansible.site is not None
    (result,) = ansible.site.glob("runs/*/result.json")
    result.unlink()
    _, found, _ = grant(node("GPU-b"), kept=lost["id"])
    assert (found["id"], found["grant"]["gpus"]) == (lost["id"], ["GPU-a"])


@pytest.mark.holds("a grant that a node still has is not said to have ended")
def test_what_has_ended_is_what_nodes_say(ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"id": "a1", "user": "minji", "gpus": ["GPU-a"], "until": 9e9, "who": "root@nas", "reason": ""}
    after: dict[str, list[Any] | None] = {"node1": [], "node2": [one], "node3": None}

    def answer(invocation: Invocation, **_: object) -> RunResult:
        ansible.asked.append(invocation)
        hosts = {}
        for name in ("node1", "node2", "node3"):
            left = [one] if invocation.check else after[name]
            report = {"grants": {"access": "granted", "gpus": ["GPU-a"], "grants": left}}
            hosts[name] = BROKEN if left is None else HostResult("changed", reports=report)
        return RunResult(hosts)

    monkeypatch.setattr("gpuadmin.ansible.runner.run", answer)
    _, out, _ = cli("revoke", "minji", "--json", "--yes")
    assert json.loads(out)["result"]["ended"] == {"node1": ["a1"], "node2": []}
    # to see which there are, nothing is set up on a node
    assert [(one.playbook, one.check) for one in ansible.asked] == [("grants", True), ("grant", False)]

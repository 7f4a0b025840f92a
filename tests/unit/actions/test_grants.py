"""Grants by verbs: until when, what is shown before, what is refused, and what is said of what nodes have done."""

import json
import time
from collections.abc import Callable
from datetime import datetime
from itertools import count
from typing import Any

import pytest

from gpuadmin.actions.grant import Granting, end
from gpuadmin.actions.grants import show
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
    ("zone", "now"),
    [("Europe/Berlin", datetime(2026, 10, 25, 1, 30)), ("America/New_York", datetime(2027, 3, 14, 1, 30)),
     ("Asia/Seoul", datetime(2026, 10, 25, 1, 30))],
)  # fmt: skip
def test_hours_are_elapsed_time(monkeypatch: pytest.MonkeyPatch, zone: str, now: datetime) -> None:
    """Also over the night in which clocks change."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        hours = (end(asked(hours=3), now).timestamp() - now.timestamp()) / 3600
    time.tzset()
    assert hours == 3


@pytest.mark.parametrize(
    ("until", "why"),
    [("15:30", "in the past"), ("2027-03-03", "in the past"), ("tomorrow", "is not a time"), ("", "is not a time")],
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


@pytest.mark.parametrize("people", [["jiho"], []])
def test_the_plan_names_who_has_the_gpu_open_now(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch, people: list[str]
) -> None:
    def answer(invocation: Invocation, **_: object) -> RunResult:
        result = node("GPU-b")(invocation.variables["gpuadmin_grant"]["node1"])
        result.reports["grants"]["held"] = {"GPU-b": people}
        return RunResult({"node1": result})

    monkeypatch.setattr("gpuadmin.ansible.runner.run", answer)
    _, out, _ = cli("grant", "minji", "node1", "--hours", "1", "--yes")
    assert ("GPU 1 is open now in programs of jiho, which go on" in out) == bool(people)


def test_a_grant_is_what_the_node_gave(grant: Callable[..., tuple[int, Any, str]], ansible: Ansible) -> None:
    """Between the look and the run another admin was quicker, and the node has chosen another GPU."""
    code, found, _ = grant(node("GPU-b"))
    assert [one.playbook for one in ansible.asked] == ["grant", "grant"], "what is in the way is found before"
    assert (code, found["grant"]["gpus"]) == (0, ["GPU-b"])
    assert found["grant"]["id"] == found["id"]


@pytest.mark.holds("a grant begins once that is confirmed", "a grant ends before its time once that is confirmed")
@pytest.mark.parametrize("words", [("grant", "minji", "node1", "--hours", "1"), ("revoke", "minji")])
def test_nothing_is_done_that_was_not_confirmed(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    held = {"id": "a1", "user": "minji", "gpus": ["GPU-a"], "until": 9e9, "who": "root@nas", "reason": ""}

    def answer(invocation: Invocation, **_: object) -> RunResult:
        ansible.asked.append(invocation)
        wanted = invocation.variables["gpuadmin_grant"].get("node1")
        return RunResult({"node1": node("GPU-a")(wanted or held)})

    monkeypatch.setattr("gpuadmin.ansible.runner.run", answer)
    monkeypatch.setattr("gpuadmin.session.Session.require_confirmation_possible", lambda session: None)
    monkeypatch.setattr("gpuadmin.session.agree", lambda question: False)
    code, _, err = cli(*words)
    assert (code != 0, "not confirmed" in err, {one.check for one in ansible.asked}) == (True, True, {True})


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


def test_a_name_that_nobody_has_is_not_said_to_have_nothing(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = RunResult({name: node()({}) for name in ("node1", "node2")})
    code, _, err = cli("revoke", "minij", "--yes")
    assert (code, "nobody has that name" in err) == (2, True)
    assert cli("revoke", "minji", "--yes")[0] == 0


def test_the_same_command_finds_what_a_killed_run_has_granted(
    grant: Callable[..., tuple[int, Any, str]], ansible: Ansible
) -> None:
    _, lost, _ = grant(lambda _: BROKEN)
    assert ansible.site is not None
    (result,) = ansible.site.glob("runs/*/result.json")
    result.unlink()
    _, found, _ = grant(node("GPU-b"), kept=lost["id"])
    assert (found["id"], found["grant"]["gpus"]) == (lost["id"], ["GPU-a"])


@pytest.mark.holds("who is locked is granted nothing")
def test_who_is_locked_is_granted_nothing(ansible: Ansible, cli: Cli) -> None:
    code, _, err = cli("grant", "jiho", "node1", "--hours", "1", "--yes")
    assert (code, "jiho is locked" in err, ansible.asked) == (5, True, [])


@pytest.mark.parametrize(
    "words", [("storage1",), ("all",), ("gpu",), ("node1", "--reason", "a\nb"), ("node1", "--reason", "x" * 201)]
)
def test_what_no_node_is_asked(ansible: Ansible, cli: Cli, words: tuple[str, ...]) -> None:
    assert cli("grant", "minji", *words, "--hours", "1", "--yes")[0] == 2
    assert ansible.asked == []


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
    _, out, err = cli("revoke", "minji", "--json", "--yes")
    assert json.loads(out)["result"]["ended"] == {"node1": ["a1"], "node2": []}
    assert "without a monitor host gpuadmin does not see who holds it" in " ".join(err.split())
    assert "idle" not in err, "this site cannot"
    # to see which there are, nothing is set up on a node
    assert [(one.playbook, one.check) for one in ansible.asked] == [("grants", True), ("grant", False)]


def test_what_ends_a_hold_is_what_the_site_has(ansible: Ansible, cli: Cli) -> None:
    one = {"id": "a1", "user": "minji", "gpus": ["GPU-a"], "until": 9e9, "who": "root@nas", "reason": ""}
    report = {"grants": {"access": "granted", "gpus": ["GPU-a"], "grants": [one]}}
    ansible.answer = RunResult({"node1": HostResult("ok", reports=report)})
    assert ansible.site is not None
    (ansible.site / "inventory/monitor.yml").write_text("monitor: {hosts: {storage1: {}}}\n")
    assert "without `mail` in gpuadmin.yml" in cli("revoke", "minji", "--check")[1]
    settings = ansible.site / "gpuadmin.yml"
    settings.write_text(f"{settings.read_text()}\nmail: {{host: localhost, sender: a@example.org}}\n")
    assert "gpuadmin idle --act tells its person" in cli("revoke", "minji", "--check")[1]


@pytest.mark.parametrize(
    ("silent", "words"),
    [
        ((), "No GPU is granted to anybody.\n"),
        (("gpu2",), "No GPU is granted to anybody on the hosts that answered.\n"),
        (("gpu1", "gpu2"), ""),
    ],
)
def test_that_nobody_has_a_grant_is_said_of_hosts_that_answered(
    silent: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = {"access": "granted", "gpus": ["0"], "grants": []}
    show({name: answer for name in ("gpu1", "gpu2") if name not in silent}, dict.fromkeys(silent, "does not answer"))
    assert capsys.readouterr().out == words + "".join(f"{name}: unknown: does not answer\n" for name in silent)

"""compare: what is asked, what is shown, and the exit code."""

import json
from typing import Any

import pytest

from gpuadmin.common.sections import SECTIONS
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Ansible, Cli, ansible

__all__ = ["ansible"]  # a fixture

HOSTS = ("storage1", "node1", "node2")


def says(sections: dict[str, dict[str, str]], **unknown: str) -> HostResult:
    found: dict[str, Any] = {"sections": sections, "unknown": unknown, "names": [], "addresses": []}
    return HostResult("ok", reports={"settings": found})


def on_all(usual: HostResult, **others: HostResult) -> RunResult:
    return RunResult({name: others.get(name, usual) for name in HOSTS})


ALIKE = says({"ssh": {"clientaliveinterval": "0"}})
OTHER = says({"ssh": {"clientaliveinterval": "300"}})
GONE = HostResult("unreachable", message="does not answer (timed out)")
ODD = HostResult("failed", [], "its answer is not understood: settings: x", {"settings": None})


@pytest.mark.holds("a host that did not answer is not said to be like the others")
@pytest.mark.holds("what could not be read is not said to be alike")
@pytest.mark.parametrize(
    ("answer", "code", "differing"),
    [
        (on_all(ALIKE), 0, []),
        (on_all(ALIKE, node1=OTHER), 6, ["node1"]),
        (on_all(ALIKE, node1=GONE), 4, []),
        (on_all(ALIKE, node1=OTHER, storage1=GONE), 4, ["node1", "node2"]),  # of two nobody knows
        (on_all(ALIKE, node1=ODD), 3, []),
        (on_all(ALIKE, node1=HostResult("ok")), 3, []),
        (on_all(ALIKE, node1=says({}, ssh="late")), 3, []),
        (on_all(says({"ssh": {"x": "0"}}, pam="late"), node1=says({"ssh": {"x": "1"}, "pam": {}})), 6, ["node1"]),
    ],
)
def test_the_exit_code(ansible: Ansible, cli: Cli, answer: RunResult, code: int, differing: list[str]) -> None:
    ansible.answer = answer
    left, out, _ = (
        cli("compare", "--section", "ssh", "--section", "pam", "--json")
        if code == 6
        else cli("compare", "--section", "ssh", "--json")
    )
    document = json.loads(out)
    assert (left, document["result"]["differing"]) == (code, differing)
    assert document["status"] == {0: "ok", 6: "differs"}.get(code, "failed")
    assert ansible.asked[0].check, "it only looks"


def test_the_odd_host_is_shown_by_section(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = on_all(ALIKE, node1=OTHER)
    _, out, err = cli("compare")
    assert out.splitlines()[:2] == [
        "ssh: sshd's settings in effect (sshd -T), and its Match lines",
        "  node1: clientaliveinterval 300; node2, storage1: 0",
    ]
    assert "storage1: pam is unknown: did not say" in out
    assert "1 host differs: node1" in err
    assert ansible.asked[0].variables["gpuadmin_sections"] == list(SECTIONS)


def test_what_hosts_say_is_data(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = on_all(ALIKE, node1=says({"ssh": {"[red]x\x1b[2J\n": "\x1b]0;evil\x07\n{{ 1 }}\n\u202e"}}))
    out = cli("compare", "--section", "ssh")[1]
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "node1: [red]x\\x1b[2J\\n 3 lines; node2, storage1: not there" in out


def test_two_hosts_and_one(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = RunResult({"node1": OTHER, "node2": ALIKE})
    code, out, _ = cli("compare", "node1", "node2", "--section", "ssh")
    assert (code, ansible.asked[0].limit) == (6, "node1,node2")
    assert "  no majority: clientaliveinterval: 300 on node1; 0 on node2" in out
    assert cli("compare", "node1")[0] == 2
    assert cli("compare", "nosuch")[0] == 2
    assert "the sections are ssh, kernel" in cli("compare", "--section", "sshd")[2]


@pytest.mark.parametrize(
    ("ignore", "why"),
    [("sshd", "did you mean 'ssh'"), ("xyzzy vm.x", "the sections are ssh, kernel"), ("''", "no section")],
)
def test_what_is_ignored_begins_with_a_section(ansible: Ansible, cli: Cli, ignore: str, why: str) -> None:
    assert ansible.site is not None
    path = ansible.site / "gpuadmin.yml"
    path.write_text(path.read_text() + f"compare: {{ignore: [{ignore}]}}\n")
    code, _, err = cli("compare")
    assert (code, why in err.replace("\n", " ")) == (2, True), err


def test_what_a_site_ignores_is_not_asked_for_or_counted(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    path = ansible.site / "gpuadmin.yml"
    path.write_text(path.read_text() + "compare: {ignore: [packages, ssh ClientAliveInterval]}\n")
    ansible.answer = on_all(ALIKE, node1=OTHER)
    _, out, _ = cli("compare")
    assert "1 setting hidden by compare.ignore in gpuadmin.yml" in out
    assert "packages" not in ansible.asked[0].variables["gpuadmin_sections"]
    cli("compare", "--section", "packages")
    assert ansible.asked[1].variables["gpuadmin_sections"] == ["packages"], "what is asked for is compared"

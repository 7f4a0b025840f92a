"""`gpuadmin power`: who is asked, who goes by itself, who is cut off, and in which order they come back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.actions.shared.queue import make_mark
from gpuadmin.ansible.invocation import Invocation
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Cli
from tests.support.fake_bmcs import HUNG, OFF, ON, Cluster, cluster

__all__ = ["cluster"]


def test_status(cluster: Cluster, cli: Cli) -> None:
    cluster.seen["node2"] = HUNG | {"state": "unknown", "problem": "curl: (7) Failed to connect"}
    code, out, err = cli("power", "status")
    assert code == 3, err
    assert "its BMC (ipmi, 10.9.0.2)" in out
    assert "Failed to connect" in out
    (asked,) = cluster.asked
    assert asked.limit == "storage1"
    assert asked.check
    assert [one["password"] for one in asked.variables["gpuadmin_bmcs"]] == ["secret"] * 3


@pytest.mark.holds("nothing is switched by a bmc that is not whole")
def test_a_bmc_that_is_not_whole_ends_no_status_of_others(cluster: Cluster, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "site/inventory/own.yml").write_text("gpu: {hosts: {node1: {bmc: {kind: ipmi}}}}\n")
    code, out, err = cli("power", "status")
    assert code == 3, err
    assert "node1: its bmc has no address" in out
    assert [one["name"] for one in cluster.asked[-1].variables["gpuadmin_bmcs"]] == ["node2", "storage1"]
    code, out, _err = cli("power", "status", "--json")
    assert {name: bool(one["problem"]) for name, one in json.loads(out)["result"]["hosts"].items()} == {
        "node1": True, "node2": False, "storage1": False,
    }  # fmt: skip
    assert "node1: its bmc has no address" in cli("power", "status", "node1")[2]
    code, _out, err = cli("power", "off", "all", "--yes")
    assert (code, cluster.did) == (2, [])
    assert "node1: its bmc has no address" in err


@pytest.mark.holds("a host whose sshd has another port on the cluster's network is not taken for a hung one")
@pytest.mark.parametrize(
    ("variables", "ports"),
    [
        ("ansible_host: 127.0.0.1, ansible_port: 2222, gpuadmin_address: 10.0.0.7", (2222, 22)),
        ("ansible_host: 127.0.0.1, ansible_port: 22, gpuadmin_address: 10.0.0.7", (22, 0)),
        ("ansible_host: 127.0.0.1, ansible_port: 2222", (2222, 0)),
    ],
)
def test_where_a_host_is_looked_for(
    cluster: Cluster, cli: Cli, tmp_path: Path, variables: str, ports: tuple[int, int]
) -> None:
    """The port may be of a forward, and the host's own 22; or sshd's own everywhere."""
    (tmp_path / "site/inventory/own.yml").write_text(f"gpu: {{hosts: {{node1: {{{variables}}}}}}}\n")
    assert cli("power", "status", "node1")[0] == 0
    (asked,) = cluster.asked[-1].variables["gpuadmin_bmcs"]
    assert (asked["ssh"], asked["also"]) == ports


#: Action and hosts, how BMCs see hosts, who does not answer, what is done.
CASES: list[tuple[str, dict[str, Any], str, list[str]]] = [
    ("off node1", {}, "", ["shutdown node1", "off node1 from storage1, cut "]),
    ("off node1", {"node1": HUNG}, "node1", ["off node1 from storage1, cut node1"]),
    ("off node1 --hard", {}, "", ["off node1 from storage1, cut node1"]),
    ("off node1", {"node1": OFF}, "node1", []),
    ("off all", {"node2": HUNG}, "node2",
     ["shutdown node1", "shutdown storage1", "off node1,storage1,node2 from mon1, cut node2"]),
    ("cycle node1 node2", {"node2": HUNG}, "node2",
     ["shutdown node1", "off node1,node2 from storage1, cut node2", "on node1,node2 from storage1, cut "]),
    ("cycle node1", {"node1": OFF}, "node1", ["on node1 from storage1, cut "]),
    ("on node1", {}, "", []),
    ("on node1 node2 storage1", dict.fromkeys(("node1", "node2", "storage1"), OFF), "node1 node2 storage1",
     ["on storage1 from mon1, cut ", "on node1,node2 from mon1, cut "]),
    ("on node1", {"node1": OFF}, "node1 storage1", ["on node1 from mon1, cut "]),
]  # fmt: skip


@pytest.mark.holds("nothing is switched from afar that was not confirmed")
def test_nothing_is_done_that_was_not_confirmed(cluster: Cluster, cli: Cli) -> None:
    code, out, err = cli("power", "off", "node1")
    assert (code, cluster.did) == (5, [])
    assert "give --yes" in out + err


@pytest.mark.holds("nodes stay off where the storage host does not come, or somebody interrupts")
def test_nodes_stay_off_where_storage_does_not_come(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.seen |= dict.fromkeys(("node1", "storage1"), OFF)

    def run(invocation: Invocation, **callbacks: object) -> RunResult:
        if invocation.variables.get("gpuadmin_bmc_switch") == "on":
            cluster.seen["storage1"] = OFF | {"problem": "after 900 seconds ssh does not answer yet"}
        return cluster.run(invocation, **callbacks)

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    code, out, err = cli("power", "on", "node1", "storage1", "--yes")
    assert (code, cluster.did) == (3, ["on storage1 from mon1, cut "]), out + err
    assert "after 900 seconds ssh does not answer yet" in out


def test_a_cycle_goes_on_without_the_host_that_failed(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(invocation: Invocation, **callbacks: object) -> RunResult:
        if invocation.variables.get("gpuadmin_bmc_switch") == "off" and not invocation.check:
            cluster.seen["node2"] = ON | {"problem": "it is on, and not off"}
        return cluster.run(invocation, **callbacks)

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    code, out, err = cli("power", "cycle", "node1", "node2", "--yes")
    assert (code, cluster.did[-1]) == (3, "on node1 from storage1, cut "), out + err


@pytest.mark.holds("no host is cut off after a step that did not succeed")
@pytest.mark.holds("nodes stay off where the storage host does not come, or somebody interrupts")
@pytest.mark.parametrize(
    ("line", "going", "did"),
    [
        # node1 stays, and still mounts what the storage host has
        ("off node1 storage1", RunResult({"node1": HostResult("failed", message="still mounts")}), ["shutdown node1"]),
        ("cycle node1 node2", RunResult({"node1": HostResult("failed", message="x")}), ["shutdown node1"]),
        ("cycle node1 storage1", RunResult({"node1": HostResult("changed")}, interrupted=True), ["shutdown node1"]),
    ],
)
def test_nothing_is_cut_off_after_a_step_that_failed(
    cluster: Cluster, cli: Cli, line: str, going: RunResult, did: list[str]
) -> None:
    silent = line.split()[2]
    cluster.seen[silent], cluster.going = HUNG, going
    del cluster.reports[silent]
    code, out, err = cli("power", *line.split(), "--yes")
    assert (code, cluster.did) == (130 if going.interrupted else 3, did), out + err
    assert f"{silent}" in out


@pytest.mark.parametrize(("line", "seen", "silent", "did"), CASES, ids=[case[0] for case in CASES])
def test_what_is_done(cluster: Cluster, cli: Cli, line: str, seen: dict[str, Any], silent: str, did: list[str]) -> None:
    cluster.seen |= seen
    for name in silent.split():
        del cluster.reports[name]
    code, out, err = cli("power", *line.split(), "--yes", "--check")
    assert (code, cluster.did) == (0, []), out + err
    code, out, err = cli("power", *line.split(), "--yes")
    assert cluster.did == did, out + err
    assert code == 0, out + err
    assert "secret" not in out + err
    switched = [one.variables for one in cluster.asked if one.variables["gpuadmin_bmc_switch"]]
    assert all(one["gpuadmin_bmc_answering"] == ("--hard" in line) for one in switched)


#: What is refused, and why.
REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("off node1", {"node1": ON}, "node1", "it answers storage1, and not this machine: timed out (--hard cuts it off)"),
    ("off node1", {"node1": OFF | {"state": "unknown", "problem": "no BMC"}}, "node1", "node1 is left out: no BMC"),
]


@pytest.mark.holds("a host that only this machine cannot reach is not cut off")
@pytest.mark.parametrize(("line", "seen", "silent", "why"), REFUSED, ids=[case[3][:30] for case in REFUSED])
def test_what_is_refused(cluster: Cluster, cli: Cli, line: str, seen: dict[str, Any], silent: str, why: str) -> None:
    cluster.seen |= seen
    del cluster.reports[silent]
    code, out, err = cli("power", *line.split(), "--yes")
    assert (code, cluster.did) == (5, [])
    assert why in out + err


def test_who_does_not_come_takes_no_jobs(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site, told = tmp_path / "site", list[Any]()
    (site / "gpuadmin.yml").write_text((site / "gpuadmin.yml").read_text() + "slurm: {}\n")
    (site / "inventory/queue.yml").write_text("slurm: {hosts: {storage1: {}}}\n")
    closed = [{"name": name, "state": "drained", "reason": f"{make_mark('power', site)} by root"}
              for name in ("node1", "node2")]  # fmt: skip
    says = RunResult({"storage1": HostResult("ok", reports={"queue": {"jobs": [], "nodes": closed}})})
    cluster.seen |= {"node1": OFF, "node2": OFF}

    def run(invocation: Invocation, **callbacks: object) -> RunResult:
        if invocation.variables.get("gpuadmin_bmc_switch") == "on" and not invocation.check:
            cluster.seen["node2"] = OFF | {"problem": "ssh does not answer yet"}
        if invocation.playbook == "drain":
            told.append(invocation.variables["gpuadmin_drain"]["nodes"])
        return says if invocation.playbook in ("queue", "drain") else cluster.run(invocation, **callbacks)

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    assert cli("power", "on", "node1", "node2", "--yes")[0] == 3
    assert told == [["node1"]]


def test_who_answers_and_cannot_be_looked_at_is_not_cut_off(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.seen["node1"] = HUNG

    def run(invocation: Invocation, **callbacks: object) -> RunResult:
        if invocation.variables.get("gpuadmin_power_tasks") == "look":
            return RunResult({"node1": HostResult("failed", message="Missing sudo password")})
        return cluster.run(invocation, **callbacks)

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    code, out, err = cli("power", "off", "node1", "--yes")
    assert (code, cluster.did) == (5, []), out + err
    assert "Missing sudo password" in out + err


def test_nothing_cuts_off_a_pc(cluster: Cluster, cli: Cli, tmp_path: Path) -> None:
    pc = 'gpu: {hosts: {node1: {bmc: {kind: wol, mac: "02:00:5e:00:53:01"}}}}\n'
    (tmp_path / "site/inventory/own.yml").write_text(pc)
    cluster.seen["node1"] = HUNG | {"state": "unknown"}
    del cluster.reports["node1"]
    code, out, err = cli("power", "off", "node1", "--yes")
    assert (code, cluster.did) == (5, [])
    assert "Wake-on-LAN switches nothing off" in out + err


@pytest.mark.parametrize("hard", [True, False])
def test_the_plan_says_what_is_lost(cluster: Cluster, cli: Cli, tmp_path: Path, hard: bool) -> None:
    code, _, err = cli("power", "off", "node1", "--check", "--json", *(["--hard"] if hard else []))
    assert code == 0, err
    (record,) = (tmp_path / "site/runs").glob("*-power-*/run.json")
    assert json.loads(record.read_text())["plan"]["destroys"] is hard


@pytest.mark.parametrize(
    ("line", "bmc", "words"),
    [
        ("off mon1", "", "no bmc in the inventory: mon1"),
        ("off mon1", "{kind: wol}", "mon1: its bmc has no mac (or gpuadmin audit --record while it is on)"),
        ("off mon1", "{kind: ipmi}", "mon1: its bmc has no address"),
        ("off", "", "which hosts? gpuadmin power off HOST"),
        ("on node1 --hard", "", "--hard and --force go with off and cycle"),
        ("status --force", "", "--hard and --force go with off and cycle"),
    ],
)
def test_a_mistake(cluster: Cluster, cli: Cli, tmp_path: Path, line: str, bmc: str, words: str) -> None:
    if bmc:
        (tmp_path / "site/inventory/own.yml").write_text(f"monitor: {{hosts: {{mon1: {{bmc: {bmc}}}}}}}\n")
    code, out, err = cli("power", *line.split())
    assert (code, cluster.did) == (2, [])
    assert words in out + err


def test_nobody_can_ask(cluster: Cluster, cli: Cli) -> None:
    for name in ("storage1", "mon1"):
        del cluster.reports[name]
    code, _, err = cli("power", "status")
    assert code == 4
    assert "no host can ask the BMCs: storage1 (timed out), mon1 (timed out)" in err
    assert "bmc.via" in err

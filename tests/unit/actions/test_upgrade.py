"""upgrade, from the command line to what hosts are asked, in which order, what stops it, and what boots."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.ansible.invocation import Invocation
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Cli
from tests.support.sites import make_site

OPENSSL = {"openssl": {"old": "3.0-1", "new": "3.0-2", "security": True}}
KERNEL = {"linux-image-6.12.9-amd64": {"old": "", "new": "6.12.9-1", "security": False}}
WAITS: dict[str, Any] = {"packages": OPENSSL, "held": [], "reboot": [], "interrupted": False, "problems": []}
FREE: dict[str, Any] = {"people": [], "clients": ["127.0.0.1"], "jobs": [], "unknown": {}}


class Cluster:
    """Answers for Ansible: what waits on hosts, who is on them, and how each step goes."""

    def __init__(self) -> None:
        self.waits = {name: copy.deepcopy(WAITS) for name in ("storage1", "node1", "node2")}
        self.power = {name: dict(FREE) for name in self.waits}
        self.bad: dict[tuple[str, str], HostResult] = {}
        self.steps: list[tuple[str, str]] = []
        self.asked: list[Invocation] = []

    def run(self, invocation: Invocation, **_callbacks: object) -> RunResult:
        hosts = (invocation.limit or "").split(",")
        given = invocation.variables.get("gpuadmin_upgrade", {})
        if invocation.variables.get("gpuadmin_power_tasks") == "look":
            return RunResult({name: HostResult("ok", reports={"power": self.power[name]}) for name in hosts})
        step = given.get("step") or f"reboot {invocation.variables['gpuadmin_power_step']}"
        if step != "look":
            self.steps.append((invocation.limit or "", step))
            self.asked.append(invocation)
        good = {name: HostResult("changed", reports={"updates": self.waits[name]}) for name in hosts}
        return RunResult({name: self.bad.get((name, step), good[name]) for name in hosts})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    fake = Cluster()
    monkeypatch.setattr("gpuadmin.ansible.runner.run", fake.run)
    monkeypatch.setenv("GPUADMIN_SITE", str(make_site(tmp_path / "site")))
    return fake


def test_host_by_host_and_storage_last(cluster: Cluster, cli: Cli) -> None:
    code, out, err = cli("upgrade", "storage1", "node2", "node1", "--security", "--yes")
    assert code == 0, err
    assert cluster.steps == [("node2", "upgrade"), ("node1", "upgrade"), ("storage1", "upgrade")]
    given = [one.variables["gpuadmin_upgrade"] for one in cluster.asked]
    assert given[0] == {"step": "upgrade", "security": True, "shown": {"openssl": "3.0-2"}}
    assert "openssl 3.0-1 → 3.0-2 (security)" in out


def test_a_check_shows_and_changes_nothing(cluster: Cluster, cli: Cli) -> None:
    cluster.waits["node1"] |= {"packages": KERNEL, "held": ["libcuda1"], "interrupted": True}
    cluster.bad[("node2", "look")] = HostResult("failed", message="it runs images: gpuadmin build-image")
    code, out, _ = cli("upgrade", "gpu", "--check")
    assert code == 3, "node2 is left out"
    for words in (
        "configures what an interrupted dpkg has left", "linux-image-6.12.9-amd64 (new) → 6.12.9-1", "reboots",
        "node2 is left out: it runs images", "held: libcuda1: the GPU's driver",
    ):  # fmt: skip
        assert words in " ".join(out.split())
    assert cluster.steps == []
    document = json.loads(cli("upgrade", "gpu", "--check", "--json")[1])
    assert document["result"]["hosts"]["node1"]["packages"] == KERNEL
    assert document["result"]["reboots"] == ["node1"]


@pytest.mark.holds("no host is upgraded after one that is not well")
@pytest.mark.parametrize("step", ["upgrade", "reboot switch", "well"])
def test_the_first_host_that_is_not_well_is_the_last(cluster: Cluster, cli: Cli, step: str) -> None:
    cluster.waits["node1"]["packages"] = {**OPENSSL, **KERNEL}
    cluster.bad[("node1", step)] = HostResult("failed", message="nfs-server.service has failed since the upgrade")
    code, out, err = cli("upgrade", "node1", "storage1", "--yes")
    assert code == 3
    assert cluster.steps[-1] == ("node1", step)
    assert all(host == "node1" for host, _ in cluster.steps)
    assert "Not touched: storage1" in err
    assert "settle what is said above, then run it again" in err
    assert "nfs-server.service has failed" in out


def test_a_host_boots_after_its_own_upgrade_if_nobody_uses_it(cluster: Cluster, cli: Cli) -> None:
    cluster.waits["node1"]["packages"] = KERNEL
    cluster.waits["node2"]["reboot"] = ["kernel 6.12.8"]
    cluster.power["node2"]["people"] = ["minji"]
    code, out, err = cli("upgrade", "gpu", "--yes")
    assert code == 0, err
    assert cluster.steps == [("node1", "upgrade"), ("node1", "reboot switch"), ("node1", "well"), ("node2", "upgrade")]
    assert "node2 does not reboot: in use by minji" in " ".join(out.split())


def test_a_storage_host_boots_at_the_end_with_the_nodes_that_mount_it(cluster: Cluster, cli: Cli) -> None:
    cluster.waits["storage1"]["packages"] = KERNEL
    cluster.waits["node2"]["packages"] = {}
    code, out, err = cli("upgrade", "all", "--yes")
    assert code == 0, err
    assert cluster.steps == [
        ("node1", "upgrade"), ("storage1", "upgrade"), ("node1,node2", "reboot release"), ("storage1", "reboot switch"),
        ("node1,node2", "reboot switch"), ("node1,node2,storage1", "well"),
    ]  # fmt: skip
    assert "reboots at the end, with the storage host" in out
    cluster.steps.clear()
    cluster.power["storage1"]["clients"] = ["10.0.0.9"]
    code, out, err = cli("upgrade", "all", "--yes")
    assert code == 0, err
    assert cluster.steps == [("node1", "upgrade"), ("storage1", "upgrade")], "no node boots for nothing"
    assert "storage1 does not reboot: mounted by" in out


def test_what_was_not_well_is_looked_at_again(cluster: Cluster, cli: Cli) -> None:
    for host in cluster.waits.values():
        host["packages"] = {}
    assert "Nothing to do" in cli("upgrade", "all", "--yes")[1]
    cluster.waits["node1"]["problems"] = ["x.service has failed since the upgrade"]
    _, out, _ = cli("upgrade", "all", "--yes")
    assert cluster.steps == [("node1", "upgrade")]
    assert "looks whether that is over: x.service has failed" in out

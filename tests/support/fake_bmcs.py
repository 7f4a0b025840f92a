"""Stands where ansible-runner is, for `gpuadmin power`: what hosts and their BMCs answer, and what was done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuadmin.ansible.invocation import Invocation
from gpuadmin.results import HostResult, RunResult
from tests.support.sites import make_site

FREE: dict[str, Any] = {"people": [], "clients": [], "jobs": [], "unknown": {}}
AWAY = HostResult("unreachable", message="timed out")
HOSTS = """
gpu:
  hosts:
    node1: {bmc: {address: 10.9.0.1}}
    node2: {bmc: {address: 10.9.0.2, kind: ipmi}}
storage: {hosts: {storage1: {bmc: {address: 10.9.0.9}}}}
monitor: {hosts: {mon1: {ansible_host: 127.0.0.1, ansible_port: 4}}}
"""
ON, OFF = {"state": "on", "answers": True, "problem": ""}, {"state": "off", "answers": False, "problem": ""}
HUNG = ON | {"answers": False}


class Cluster:
    """Answers for Ansible. `seen`: by host, as its BMC has it. `reports`: who answers, with what."""

    def __init__(self) -> None:
        self.seen = {name: dict(ON) for name in ("storage1", "node1", "node2")}
        self.reports = {name: dict(FREE) for name in (*self.seen, "mon1")}
        self.did: list[str] = []
        self.asked: list[Invocation] = []
        self.going: RunResult | None = None  # what becomes of hosts that go by themselves; None: they do

    def run(self, invocation: Invocation, **_callbacks: object) -> RunResult:
        given, hosts = invocation.variables, (invocation.limit or "").split(",")
        up = [name for name in hosts if name in self.reports]
        found = {name: HostResult("changed") if name in up else AWAY for name in hosts}
        if given.get("gpuadmin_power_tasks") == "bmcs":
            self.asked.append(invocation)
            names, wanted = [one["name"] for one in given["gpuadmin_bmcs"]], given["gpuadmin_bmc_switch"]
            if wanted and not invocation.check:
                self.did.append(
                    f"{wanted} {','.join(names)} from {hosts[0]}, cut {','.join(given['gpuadmin_bmc_hard'])}"
                )
            return RunResult({name: HostResult("ok", reports={"bmcs": {one: self.seen[one] for one in names}})
                              if name in up else AWAY for name in hosts})  # fmt: skip
        if given.get("gpuadmin_power_tasks") == "look":
            return RunResult({name: HostResult("ok", reports={"power": self.reports[name]}) if name in up else AWAY
                              for name in hosts})  # fmt: skip
        if not invocation.check:
            self.did.append(f"shutdown {','.join(hosts)}")
        return self.going or RunResult(found)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    site = make_site(tmp_path / "site")
    (site / "inventory/more.yml").write_text(HOSTS)
    settings = site / "gpuadmin.yml"
    settings.write_text(f"{settings.read_text()}\nbmc: {{user: root}}\n")
    monkeypatch.setenv("GPUADMIN_BMC_PASSWORD", "secret")
    monkeypatch.setenv("GPUADMIN_SITE", str(site))
    made = Cluster()
    monkeypatch.setattr("gpuadmin.ansible.runner.run", made.run)
    return made

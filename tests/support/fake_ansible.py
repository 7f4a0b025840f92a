"""Stands where ansible-runner is: what the verbs ask, and what they are answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuadmin.ansible.invocation import Invocation
from gpuadmin.results import HostResult, RunResult
from tests.support.sites import UIDS, make_site, public_key

KEY, OTHER = public_key("minji"), public_key("jiho")

USERS = f"""# People.
users:
  - name: minji  # first
    uid: 20000
    keys:
      - {KEY}
    expires: 2097-02-28
  - name: jiho
    uid: 20001
    locked: true
retired:
  - {{name: old, uid: 20002, removed: 2026-02-01}}
"""

#: What a host says on which nobody is root who should not be.
NOBODY: dict[str, Any] = {"found": [], "sshd": {}, "keys": {}, "aside": [], "unknown": {}}


@dataclass
class Ansible:
    """Stands where ansible-runner is: remembers what it was asked, and answers what a test says."""

    asked: list[Invocation] = field(default_factory=list)
    users_yml: list[str] = field(default_factory=list)
    site: Path | None = None
    answer: RunResult = field(
        default_factory=lambda: RunResult({name: HostResult("ok") for name in ("storage1", "node1", "node2")})
    )

    #: What the storage host says before a uid is given, and how often it was asked.
    uids: HostResult = field(default_factory=lambda: HostResult("ok", reports={"uids": dict(UIDS)}))
    looked: int = 0

    def run(self, invocation: Invocation, **_callbacks: object) -> RunResult:
        accounts = invocation.check and invocation.playbook == "sync-users"
        if accounts and not invocation.variables["gpuadmin_users"] and not invocation.variables["gpuadmin_absent"]:
            self.looked += 1
            return RunResult({"storage1": self.uids})
        self.asked.append(invocation)
        assert self.site is not None
        self.users_yml.append((self.site / "users.yml").read_text())
        if invocation.playbook == "drift":  # it is asked before anything of provision's can fail
            for host in self.answer.hosts.values():
                host.reports = {"privileges": NOBODY} | host.reports if not host.silent else {}
        there = {one["name"] for one in yaml.safe_load(self.users_yml[-1])["users"]}
        if accounts and {user["name"] for user in invocation.variables["gpuadmin_users"]} - there:
            # a check of newcomers asks all at once
            return RunResult({**self.answer.hosts, "storage1": self.uids}, error=self.answer.error)
        return self.answer


@pytest.fixture
def ansible(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ansible:
    fake = Ansible(site=make_site(tmp_path / "site", USERS))
    monkeypatch.setattr("gpuadmin.ansible.runner.run", fake.run)
    monkeypatch.setenv("GPUADMIN_SITE", str(fake.site))
    return fake


def answered_by(kind: Callable[[], Any]) -> Any:
    """A fixture: the site of `ansible`, where `run` of a class of the test's own answers."""

    @pytest.fixture
    def hosts(ansible: Ansible, monkeypatch: pytest.MonkeyPatch) -> Any:
        found = kind()
        monkeypatch.setattr("gpuadmin.ansible.runner.run", found.run)
        return found

    return hosts


Cli = Callable[..., tuple[int, str, str]]


def users(ansible: Ansible) -> str:
    assert ansible.site is not None
    return (ansible.site / "users.yml").read_text()

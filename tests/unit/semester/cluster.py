"""A cluster whose storage host is a real btrfs and whose nodes are directories: what Ansible would be asked is done
by the nodes' own code, here and now."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils import (
    backup_actions,
    people,
    scratch,
    term_facts,
    wipe,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.config.load import load_settings
from gpuadmin.events import HostResult
from gpuadmin.run import Invocation, RunResult
from gpuadmin.term import current_term
from tests.unit.node.storage import Storage
from tests.unit.support import make_site

PEOPLE = {"minji": 20000, "jiho": 20001, "seo": 20002, "yuna": 20003}
USERS = """# People.
users:
  - {name: minji, uid: 20000, email: minji@example.org}  # leaves
  - {name: jiho, uid: 20001}
  - {name: seo, uid: 20002, stays: 2026-2}
  - {name: yuna, uid: 20003}
retired: []
"""


@dataclass
class Cluster:
    """`away`: hosts that do not answer. `processes`: host → who runs something there. `locked`: who cannot log in."""

    site: Path
    storage: Storage
    base: Path
    away: set[str] = field(default_factory=set)
    processes: dict[str, dict[str, int]] = field(default_factory=dict)
    locked: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    asked: list[Invocation] = field(default_factory=list)
    before_phase: Callable[[str], None] = lambda phase: None

    def docker(self, node: str) -> Path:
        return self.base / node / "docker"

    def run(self, invocation: Invocation, **_callbacks: object) -> RunResult:
        """What `gpuadmin.run.run` does, without Ansible."""
        self.asked.append(invocation)
        phase = str(invocation.variables["gpuadmin_phase"])
        self.before_phase(phase)
        assert invocation.limit is not None
        return RunResult({host: self._host(host, phase, invocation) for host in invocation.limit.split(",")})

    def _host(self, host: str, phase: str, invocation: Invocation) -> HostResult:
        if host in self.away:
            return HostResult("unreachable", message="does not answer (timed out)")
        work = getattr(self, f"_{phase.replace('-', '_')}")
        try:
            operations, report, conflicts = work(host, invocation.variables, invocation.check)
        except NodeError as error:
            return HostResult("failed", message=str(error))
        status = "failed" if conflicts else "changed" if operations else "ok"
        return HostResult(status, list(operations), "; ".join(conflicts) or None, dict(report))

    def _common(self) -> dict[str, Any]:
        return {"directory": str(self.storage.directory), "mountpoint": str(self.storage.point)}

    def _facts(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[Any, ...]:
        found = people.parse(variables["gpuadmin_term"]["people"])
        if host == "storage1":
            facts = term_facts.collect(
                found, home_root=str(self.storage.root), mountpoint=str(self.storage.point),
                backup_directory=str(self.storage.directory),
            )  # fmt: skip
            names = variables["gpuadmin_term"]["names"]
            facts = {**facts, "identities": {name: PEOPLE[name] for name in names if name in PEOPLE}}
        else:
            facts = term_facts.collect(found, docker=str(self.docker(host)))
        return [], {"facts": {**facts, "processes": dict(self.processes.get(host, {}))}}, []

    def _lock(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[Any, ...]:
        names = {user["name"] for user in variables["gpuadmin_users"] if user["locked"]}
        new = sorted(names - self.locked)
        if not check:
            self.locked |= names
        return [f"user {name}: lock" for name in new], {}, []

    def _unlock(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[Any, ...]:
        for user in variables["gpuadmin_users"]:
            (self.locked.add if user["locked"] else self.locked.discard)(user["name"])
        return ["unlock"], {}, []

    def _end_sessions(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[Any, ...]:
        running = self.processes.get(host, {})
        mine = [one["name"] for one in variables["gpuadmin_term"]["people"] if one["name"] in running]
        if not check:
            for name in mine:
                del running[name]
        return [f"{name}: end processes" for name in mine], {"sessions": {}}, []

    def _backup(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[Any, ...]:
        wanted = variables["gpuadmin_backup"]
        done = backup_actions.act(
            {"action": "make", "root": str(self.storage.root), "name": wanted["name"], "users": wanted["users"],
             "workers": 1, **self._common()}, check=check,
        )  # fmt: skip
        return done.operations, done.report, []

    def _wipe(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[Any, ...]:
        term = variables["gpuadmin_term"]
        if host == "storage1":
            if not term.get("wipe"):
                return [], {}, []
            request = wipe.Request(
                str(self.storage.root), str(self.storage.directory), term["backup"], term["wipe"],
                str(self.storage.point),
            )  # fmt: skip
            plan = wipe.converge(request, check=check)
            report = plan.report()
            if not check:
                report["deleted"] = {name: one.as_dict() for name, one in wipe.empty_trash(request).items()}
            return plan.operations, report, plan.conflicts
        items = term.get("scratch", {}).get(host, [])
        request_ = scratch.Request(items, [str(self.docker(host))], people.parse(term["people"]))
        if check:
            plan_ = scratch.observe_and_compute(request_)
            return plan_.operations, plan_.report(), plan_.conflicts
        plan_, done = scratch.wipe(request_)
        report = {**plan_.report(), "deleted": {path: one.as_dict() for path, one in done.items()}}
        return plan_.operations, report, plan_.conflicts

    def _prune(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[Any, ...]:
        days = load_settings(self.site).backups.days
        only = variables["gpuadmin_backup"]["only"].get(host, [])
        done = backup_actions.act(
            {"action": "prune", "days": days, "ordinary": 14, "only": only, **self._common()}, check=check
        )  # fmt: skip
        return done.operations, done.report, []

    def _reopen(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[Any, ...]:
        self.gone |= {one["name"] for one in variables["gpuadmin_absent"]}
        return [], {}, []

    def picture(self) -> dict[str, Any]:
        """Everything that a reset may change, as one value to compare."""
        return {
            "homes": {
                path.name: (path.stat().st_uid, sorted(str(one.relative_to(path)) for one in path.rglob("*")))
                for path in sorted(self.storage.root.iterdir()) if path.is_dir() and path.name != ".gpuadmin-restoring"
            },
            "docker": {node: sorted(path.name for path in self.docker(node).iterdir()) for node in ("node1", "node2")},
            "gone": sorted(self.gone),
            "users": (self.site / "users.yml").read_text(),
            "term": current_term(load_settings(self.site)).name,
        }  # fmt: skip


def make_cluster(base: Path, storage: Storage, settings: Mapping[str, Any] | None = None) -> Cluster:
    """Four people with homes and Docker data, of whom seo was extended; and a home that nobody knows."""
    term = {"name": "2026-2", "deadline": "2026-01-31", "next": {"name": "2027-1", "deadline": "2099-06-30"}}
    site = make_site(base / "site", USERS, {"homes": {"export": str(storage.root)}})
    text = (site / "gpuadmin.yml").read_text()
    text = text.replace("protected: []", "protected: [yuna]")
    more = "".join(f"{key}: {value}\n" for key, value in (settings or {}).items())
    (site / "gpuadmin.yml").write_text(
        f"{text}\nterm:  # now\n  name: {term['name']}\n  deadline: {term['deadline']}\n"
        f"  next: {{name: 2027-1, deadline: 2099-06-30}}\n{more}"
    )
    cluster = Cluster(site, storage, base)
    for name, uid in PEOPLE.items():
        storage.home(name, uid, {"thesis": name.encode(), "data/set": b"x" * 5000})
    storage.home("stranger", 29999)
    for node in ("node1", "node2"):
        cluster.docker(node).mkdir(parents=True)
        for name, uid in PEOPLE.items():
            data = cluster.docker(node) / name
            (data / "overlay2").mkdir(parents=True)
            (data / "overlay2/layer").write_bytes(b"y" * 100)
            Storage.give(data, uid)
            os.chown(data / "overlay2/layer", 2**31 + (uid - 20000) * 65536 + 1000, 0)
    return cluster

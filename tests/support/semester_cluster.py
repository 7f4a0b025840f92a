"""A cluster whose storage host is a real btrfs and whose hosts' roots are directories.

What Ansible would be asked is done by the nodes' own code, here and now: accounts, logins, sessions, backups, wiping.
What is played is the kernel's and systemd's part in sessions: processes are a table, out of which `systemctl kill`
takes people; nobody is warned on terminals, and nothing waits for the grace.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils import documents, people
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import converge, plan
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import settings_from
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import actions
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import access, sessions
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import homes, scratch, term_facts

from gpuadmin.ansible.invocation import Invocation
from gpuadmin.common.records.backups import BackupOrder
from gpuadmin.common.records.people import PersonEntry
from gpuadmin.common.records.wipes import WipeHomes, WipeScratch
from gpuadmin.config.load import load_settings
from gpuadmin.results import HostResult, RunResult
from gpuadmin.semester.term import current_term
from tests.support.sites import make_site
from tests.support.storage import Storage

PEOPLE = {"minji": 20000, "jiho": 20001, "seo": 20002, "yuna": 20003}
HOSTS = ("storage1", "node1", "node2")
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
    """`away`: hosts that do not answer. `processes`: host → who runs how much there; `stuck`: whom no signal ends.

    `before_phase` (and `before_run`, which knows whether it is a check) are called with what is about to be asked, and
    `after_host` where it was done.
    """

    site: Path
    storage: Storage
    base: Path
    away: set[str] = field(default_factory=set)
    processes: dict[str, dict[str, int]] = field(default_factory=dict)
    stuck: set[str] = field(default_factory=set)
    asked: list[Invocation] = field(default_factory=list)
    before_phase: Callable[[str], None] = lambda phase: None
    before_run: Callable[[str, bool], None] = lambda phase, check: None
    after_host: Callable[[str, str, bool], None] = lambda phase, host, check: None

    def entries(self, host: str, database: str) -> dict[str, list[str]]:
        """A host's passwd, shadow or the like: name → fields."""
        lines = (self.base / host / "etc" / database).read_text().splitlines()
        return {line.split(":")[0]: line.split(":") for line in lines}

    @property
    def locked(self) -> set[str]:
        """Who is locked out of every host."""
        return {name for name in PEOPLE if all(self.locked_on(host, name) for host in HOSTS)}

    def locked_on(self, host: str, name: str) -> bool:
        """Whether somebody's account on a host is locked and expired."""
        fields = self.entries(host, "shadow").get(name)
        return fields is not None and fields[1].startswith("!") and fields[7] == "1"

    @property
    def gone(self) -> set[str]:
        """Whose account is on no host any more."""
        return {name for name in PEOPLE if not any(name in self.entries(host, "passwd") for host in HOSTS)}

    def docker(self, node: str) -> Path:
        return self.base / node / "docker"

    def run(self, invocation: Invocation, **_callbacks: object) -> RunResult:
        """What `gpuadmin.ansible.runner.run` does, without Ansible."""
        self.asked.append(invocation)
        phase = str(invocation.variables["gpuadmin_phase"])
        self.before_phase(phase)
        self.before_run(phase, invocation.check)
        assert invocation.limit is not None
        results = {}
        for host in invocation.limit.split(","):
            results[host] = self._host(host, phase, invocation)
            self.after_host(phase, host, invocation.check)
        return RunResult(results)

    def _host(self, host: str, phase: str, invocation: Invocation) -> HostResult:
        if host in self.away:
            return HostResult("unreachable", message="does not answer (timed out)")
        answer = getattr(self, f"_{phase.replace('-', '_')}")
        try:
            operations, report, conflicts = answer(host, invocation.variables, invocation.check)
        except NodeError as error:
            return HostResult("failed", message=str(error))
        status = "failed" if conflicts else "changed" if operations else "ok"
        return HostResult(status, list(operations), "; ".join(conflicts) or None, documents.to_plain(dict(report)))

    def _common(self) -> dict[str, Any]:
        return {"directory": str(self.storage.directory), "mountpoint": str(self.storage.point)}

    def _act(self, check: bool, **given: Any) -> tuple[Any, ...]:
        """What gpuadmin.node.backup does."""
        done = actions.act(documents.parse(BackupOrder, {**given, **self._common()}, "order"), check=check)
        return done.operations, done.report, []

    def _facts(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[Any, ...]:
        found = parse_people(variables)
        running = partial(self._running, host)
        if host == "storage1":
            facts = term_facts.collect(
                found, home_root=str(self.storage.root), mountpoint=str(self.storage.point),
                backup_directory=str(self.storage.directory), processes=running,
            )  # fmt: skip
            names = variables["gpuadmin_term"]["names"]
            facts = {**facts, "identities": {name: PEOPLE[name] for name in names if name in PEOPLE}}
        else:
            facts = term_facts.collect(found, docker=str(self.docker(host)), processes=running)
        return [], {"facts": facts}, []

    def _running(self, host: str) -> list[sessions.Process]:
        # no process of this machine has such a number: whatever the code under test does, it ends nothing here
        names = [name for name, count in self.processes.get(host, {}).items() for _ in range(count)]
        return [sessions.Process(2**30 + number, PEOPLE[name], "train", "S") for number, name in enumerate(names)]

    def _systemd(self, host: str, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if tuple(command[:3]) == ("systemctl", "kill", "--signal=SIGKILL"):
            for name, uid in PEOPLE.items():
                if command[3] == f"user-{uid}.slice" and name not in self.stuck:
                    self.processes.get(host, {}).pop(name, None)
        return subprocess.CompletedProcess(command, 0, "", "")

    def _accounts(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[list[str], list[str]]:
        """The role accounts: (operations, conflicts)."""
        site = variables["gpuadmin_site"]
        settings = settings_from(
            {**site["accounts"], "login": host != "storage1", "docker_data": None if host == "storage1" else "/docker",
             "subid_base": site["subids"]["base"], "subid_size": site["subids"]["size"]}
        )  # fmt: skip
        request = plan.Request(settings, variables["gpuadmin_users"], variables["gpuadmin_absent"])
        system = converge.Host(
            root=str(self.base / host), subvolume="/roots/a", network=lambda path: None,
            lookup=lambda name: (PEOPLE[name], PEOPLE[name]) if name in PEOPLE else None,
        )  # fmt: skip
        done = converge.converge(request, system, check=check).plan
        return done.operations, done.conflicts

    def _access(self, host: str, variables: Mapping[str, Any], check: bool, closed: bool) -> tuple[Any, ...]:
        """The roles accounts and semester, as the playbook has them."""
        operations, conflicts = self._accounts(host, variables, check)
        if conflicts:
            return operations, {}, conflicts
        logins = access.converge(
            parse_people(variables), closed,
            access.Host(root=str(self.base / host), run=lambda command: self._systemd(host, command)), check=check,
            # with a check, the accounts are not locked yet
            login=host != "storage1" and variables["gpuadmin_site"]["accounts"]["source"] == "registry",
        )  # fmt: skip
        return [*operations, *logins.operations], {}, logins.conflicts

    def _lock(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[Any, ...]:
        return self._access(host, variables, check, closed=True)

    def _unlock(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[Any, ...]:
        return self._access(host, variables, check, closed=False)

    def _end_sessions(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[Any, ...]:
        who = parse_people(variables)
        done = sessions.converge(
            who, check=check,
            host=sessions.Host(
                linger=str(self.base / host / "var/lib/systemd/linger"), gentle=0.0, patience=0.0,
                run=lambda command: self._systemd(host, command), processes=lambda: self._running(host),
            ),
        )  # fmt: skip
        return done.operations, done.report(), done.conflicts

    def _backup(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[Any, ...]:
        wanted = variables["gpuadmin_backup"]
        return self._act(
            check, action="make", root=str(self.storage.root), name=wanted["name"], users=wanted["users"], workers=1,
            accounting=False,
        )  # fmt: skip

    def _wipe(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[Any, ...]:
        term = variables["gpuadmin_term"]
        if host == "storage1":
            if not term.get("wipe"):
                return [], {}, []
            request = as_document(
                WipeHomes, root=str(self.storage.root), backup=term["backup"], users=term["wipe"], **self._common()
            )
            plan = homes.converge(request, check=check)
            report = plan.report()
            if not check:
                report["deleted"] = homes.empty_trash(request)
            return plan.operations, report, plan.conflicts
        order = as_document(
            WipeScratch, people=term["people"], items=term.get("scratch", {}).get(host, []),
            directories=[str(self.docker(host))],
        )  # fmt: skip
        request_ = scratch.build_request(order)
        if check:
            plan_ = scratch.observe_and_compute(request_)
            return plan_.operations, plan_.report(), plan_.conflicts
        plan_, done = scratch.wipe(request_)
        report = {**plan_.report(), "deleted": done}
        return plan_.operations, report, plan_.conflicts

    def _prune(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[Any, ...]:
        days = load_settings(self.site).backups.days
        only = variables["gpuadmin_backup"]["only"].get(host, [])
        return self._act(check, action="prune", days=days, ordinary=14, only=only)

    def _reopen(self, host: str, variables: Mapping[str, Any], check: bool) -> tuple[Any, ...]:
        operations, conflicts = self._accounts(host, variables, check)
        return operations, {}, conflicts

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


def parse_people(variables: Mapping[str, Any]) -> list[people.Person]:
    return people.parse([as_document(PersonEntry, **one) for one in variables["gpuadmin_term"]["people"]])


def as_document(record: type, **given: Any) -> Any:
    """Given what a role hands to an operation, return what the operation gets; it refuses what it does not know."""
    return documents.parse(record, given, record.__name__, templated=True)


def make_root(root: Path) -> None:
    """A host's root, with everybody's account."""
    (root / "etc").mkdir(parents=True)
    (root / "var/lib/systemd/linger").mkdir(parents=True)
    people = PEOPLE.items()
    for name, head, lines in (
        ("passwd", "root:x:0:0::/:/bin/sh", [f"{name}:x:{uid}:{uid}::/home/{name}:/bin/bash" for name, uid in people]),
        ("shadow", "root:*:1::::::", [f"{name}:$y$hash{uid}:20000:0:99999:7:::" for name, uid in people]),
        ("group", "root:x:0:", [f"{name}:x:{uid}:" for name, uid in people]),
        ("gshadow", "root:*::", [f"{name}:!::" for name, uid in people]),
        ("subuid", "", []),
        ("subgid", "", []),
    ):
        (root / "etc" / name).write_text("".join(f"{line}\n" for line in [head, *lines] if line))


def make_cluster(base: Path, storage: Storage) -> Cluster:
    """Four people with homes and Docker data, of whom seo was extended; and a home that nobody knows."""
    term = {"name": "2026-2", "deadline": "2026-01-31", "next": {"name": "2027-1", "deadline": "2099-06-30"}}
    site = make_site(base / "site", USERS, {"homes": {"export": "/EXPORT"}})
    text = (site / "gpuadmin.yml").read_text()
    assert "export: /EXPORT\n" in text
    text = text.replace("/EXPORT", str(storage.root)).replace("protected: []", "protected: [yuna]")
    (site / "gpuadmin.yml").write_text(
        f"{text}\nterm:  # now\n  name: {term['name']}\n  deadline: {term['deadline']}\n"
        f"  begin: 2025-09-01\n  next: {{name: 2027-1, deadline: 2099-06-30}}\n"
    )
    cluster = Cluster(site, storage, base)
    for name, uid in PEOPLE.items():
        storage.home(name, uid, {"thesis": name.encode(), "data/set": b"x" * 5000})
    storage.home("stranger", 29999)
    for host in HOSTS:
        make_root(base / host)
    for node in ("node1", "node2"):
        cluster.docker(node).mkdir(parents=True)
        for name, uid in PEOPLE.items():
            data = cluster.docker(node) / name
            (data / "overlay2").mkdir(parents=True)
            (data / "overlay2/layer").write_bytes(b"y" * 100)
            Storage.give(data, uid)
            os.chown(data / "overlay2/layer", 2**31 + (uid - 20000) * 65536 + 1000, 0)
    return cluster

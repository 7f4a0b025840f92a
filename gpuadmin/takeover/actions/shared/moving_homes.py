"""Hosts between which homes are moved: what they are asked, in turn, and what came of it (move_homes.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuadmin.answers import Answers
from gpuadmin.common.records.moving import MovedHome
from gpuadmin.common.text import listed
from gpuadmin.errors import ConfigError
from gpuadmin.results import RunResult
from gpuadmin.session import Session

PLAYBOOK = "move-homes"
Documents = Mapping[str, Mapping[str, Any]]


@dataclass
class Moving:
    """A run in progress. `problems`: who had one, and what. `placed`: whose homes have their names on the storage host.

    `unknown`: of whom that is not known, because a run on the storage host was cut off. `closed`: who is kept out, as
    far as all hosts have not said that they are let in. `failed`: hosts that did not do what they were asked last.
    """

    session: Session
    nodes: list[str]
    server: str
    problems: dict[str, str] = field(default_factory=dict)
    placed: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    last: RunResult = field(default_factory=lambda: RunResult({}))

    @property
    def hosts(self) -> list[str]:
        return [*self.nodes, self.server]

    def address(self, host: str) -> str:
        """What other hosts of the site connect to."""
        return next(one.cluster_address for one in self.session.site.inventory.hosts if one.name == host)

    def document(self, host: str, step: str, homes: Iterable[MovedHome] = (), **more: Any) -> dict[str, Any]:
        shared, serves = self.session.site.settings.homes, host == self.server
        return {
            "step": step, "path": shared.export if serves else shared.path, "serves": serves, "people": [],
            "homes": [vars(one) for one in homes], "nodes": {}, "key": "", "skeleton": shared.skeleton,
            "run_id": self.session.run_id, "done": [], **more,
        }  # fmt: skip

    def look(self, documents: Documents, what: str, of: str = "moving") -> dict[str, Any]:
        found = self.session.look(PLAYBOOK, list(documents), {"gpuadmin_move_homes": documents})
        answers = Answers.of(found.hosts, list(documents), of)
        answers.require(what)  # guard: no home is moved before every host has spoken
        return dict(answers.known)

    def run(self, documents: Documents, doing: str) -> bool:
        """Have hosts do something. Returns whether all did; `last` has what came of it."""
        found = self.session.run(
            PLAYBOOK, list(documents), {"gpuadmin_move_homes": documents}, check=False, doing=doing, quiet=True
        )
        hosts = dict(self.last.hosts)
        for host, result in found.hosts.items():
            earlier = hosts.get(host)
            if earlier is not None:
                bad = earlier if earlier.bad else result  # guard: a host that failed once has failed -> result
                hosts[host] = replace(bad, changed=[*earlier.changed, *result.changed], reports=result.reports)
            else:
                hosts[host] = result
        self.last = RunResult(hosts, self.last.interrupted or found.interrupted, self.last.error or found.error)
        for host, answer in found.reported("moved").items():
            self.problems.update({name: f"{host}: {words}" for name, words in answer["problems"].items()})
            if host == self.server:  # guard: who has a home in two places after a failure is not let in
                self.unknown |= set(answer.get("between", ()))
        whole = not (found.bad or found.interrupted or found.error)
        self.failed = set() if whole else set(found.bad) or set(documents)
        return whole

    def open(self, people: Mapping[str, int]) -> None:
        """Let people in on all hosts, and see that they are. After Ctrl-C, too: nothing of theirs is under way."""
        entries = [{"name": name, "uid": uid} for name, uid in people.items() if name in self.closed]
        if not entries:
            return
        whole = self.run({host: self.document(host, "open", people=entries) for host in self.hosts}, "Letting them in")
        reported = {name for host in self.hosts for name in self._moved(host).get("closed", ())}
        # guard: who is said to be let in is let in on every host -> set()
        still = reported if whole else {one["name"] for one in entries}
        self.closed -= {one["name"] for one in entries} - still

    def _moved(self, host: str) -> Mapping[str, Any]:
        found = self.last.hosts.get(host)
        return {} if found is None else found.reports.get("moved", {})

    def said(self, host: str) -> list[dict[str, Any]]:
        """What a host has said last of homes that it has done something with."""
        return list(self._moved(host).get("parts", []))

    @property
    def is_working(self) -> bool:
        """Whether the storage host has more to say of what it was asked for."""
        return self._moved(self.server).get("working") is True


def list_moving_hosts(session: Session) -> Moving:
    """The hosts that it works on: all of them, since people would be let in on others in the middle."""
    hosts, storage = session.some("gpu", "storage"), session.storage()
    every = {host.name for host in session.site.inventory.hosts if {"gpu", "storage"} & set(host.groups)}
    # guard: nobody works in a home while it is moved, on a host that is left out
    if every - set(hosts) and not session.check:
        raise ConfigError(
            f"--limit leaves out {listed(sorted(every - set(hosts)))}: people could work in their homes there",
            hint="leave --limit out; with --check it only looks",
        )
    if len(storage) > 1:
        raise ConfigError(f"several hosts serve homes: {listed(storage)}", hint="one of them is in the group storage")
    return Moving(session, [host for host in hosts if host not in storage], storage[0])

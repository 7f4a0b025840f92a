"""A plan: what a verb is about to do, in names of hosts and people, before it does it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Step:
    """Something that will happen to one host, or to the site's own files (host `site`)."""

    host: str
    action: str


@dataclass(frozen=True)
class Plan:
    """Everything that a verb is about to do."""

    title: str
    steps: tuple[Step, ...] = ()
    warnings: tuple[str, ...] = ()
    destroys: bool = False
    question: str = "Go ahead?"

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.steps

    def grouped(self) -> list[tuple[str, list[str]]]:
        """The actions, with the hosts that share the same list of them joined: `node1, node2`."""
        by_host: dict[str, list[str]] = {}
        for step in self.steps:
            by_host.setdefault(step.host, []).append(step.action)
        joined: dict[tuple[str, ...], list[str]] = {}
        for host, actions in by_host.items():
            joined.setdefault(tuple(actions), []).append(host)
        return [(", ".join(hosts), list(actions)) for actions, hosts in joined.items()]

    def document(self) -> dict[str, Any]:
        """The plan as a run's record has it."""
        return {
            "title": self.title,
            "steps": [{"host": step.host, "action": step.action} for step in self.steps],
            "warnings": list(self.warnings),
            "destroys": self.destroys,
        }


@dataclass
class PlanBuilder:
    """Collects the steps of a plan."""

    title: str
    destroys: bool = False
    steps: list[Step] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, host: str, action: str) -> None:
        self.steps.append(Step(host, action))

    def add_all(self, hosts: Iterable[str], actions: Iterable[str]) -> None:
        actions = list(actions)
        for host in hosts:
            for action in actions:
                self.add(host, action)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def build(self, *, question: str = "Go ahead?") -> Plan:
        return Plan(self.title, tuple(self.steps), tuple(self.warnings), self.destroys, question)

"""What an operation answers: what it did, and what it could not do after the rest was done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .documents import to_plain


class Plan(Protocol):
    """A plan that was carried out, or would be."""

    @property
    def operations(self) -> Sequence[str]: ...
    @property
    def conflicts(self) -> Sequence[str]: ...
    def report(self) -> Mapping[str, object]: ...


@dataclass(frozen=True)
class Answer:
    """``operations``: what was done, a sentence each. ``conflicts``: what was left alone, and why.

    ``changed``: None if it follows from there being operations. ``problem``: why the whole of it failed. ``more``: keys
    of the result that Ansible or the playbook reads (`ansible_facts`, `finished`, …).
    """

    operations: Sequence[str] = ()
    report: Mapping[str, object] = field(default_factory=dict)
    conflicts: Sequence[str] = ()
    changed: bool | None = None
    diff: Mapping[str, object] | Sequence[Mapping[str, str]] | None = None
    problem: str | None = None
    more: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, **more: object) -> Answer:
        """What a plan says, and ``more`` in its report."""
        return cls(plan.operations, {**plan.report(), **more}, plan.conflicts)

    def result(self, each: str | None = None) -> dict[str, object]:
        """The result that Ansible gets. ``each``: what a report always has, empty if nothing was begun.

        What is below ``each`` has an entry for each person: it goes as one text. Ansible walks a structure several
        times for each host.
        """
        found: dict[str, object] = {
            "changed": bool(self.operations) if self.changed is None else self.changed,
            "operations": list(self.operations),
            "report": to_plain({name: value for name, value in self.report.items() if name != each}),
            **({} if each is None else {"each": {each: json.dumps(self.report.get(each) or {}, default=vars)}}),
            **self.more,
        }
        if self.diff is not None:
            found["diff"] = self.diff
        if self.problem is not None or self.conflicts:
            found["failed"] = True
            found["msg"] = "; ".join(self.conflicts) if self.problem is None else self.problem
        if self.conflicts:
            found["conflicts"] = list(self.conflicts)
        return found

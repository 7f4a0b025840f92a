"""How a module ends: with what it did, and fails for what it could not do after the rest was done."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .errors import NodeError, in_words


class Module(Protocol):
    """What is asked of ansible.module_utils.basic.AnsibleModule."""

    def exit_json(self, **kwargs: Any) -> Any: ...
    def fail_json(self, msg: str, **kwargs: Any) -> Any: ...


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

    ``changed``: None where it says no more than that there were operations.
    """

    operations: Sequence[str]
    report: Mapping[str, object]
    conflicts: Sequence[str] = ()
    changed: bool | None = None
    diff: Mapping[str, object] | None = None

    @classmethod
    def of(cls, plan: Plan, **more: object) -> Answer:
        """What a plan says, and ``more`` in its report."""
        return cls(plan.operations, {**plan.report(), **more}, plan.conflicts)


def give(module: Module, answer: Callable[[], Answer], *, key: str | None = None) -> None:
    """Compute the answer and end the module. ``key``: what a report always has, empty where nothing was begun.

    What is below ``key`` has an entry for each person: it goes as one text, in ``each``. Ansible walks a structure
    several times for each host, the arguments too, which a module sends back unless it says otherwise.
    """
    try:
        done = answer()
    except (NodeError, OSError) as error:
        report: dict[str, object] = {"problems": [in_words(error)]}
        module.fail_json(msg=in_words(error), operations=[], report=report, **_each(key, {}), invocation={})
        return
    changed = bool(done.operations) if done.changed is None else done.changed
    result: dict[str, object] = {
        "changed": changed,
        "operations": done.operations,
        "report": {name: value for name, value in done.report.items() if name != key},
        **_each(key, done.report),
        "invocation": {},
    }
    if done.diff is not None:
        result["diff"] = done.diff
    if done.conflicts:
        module.fail_json(msg="; ".join(done.conflicts), conflicts=list(done.conflicts), **result)
        return
    module.exit_json(**result)


def _each(key: str | None, report: Mapping[str, object]) -> dict[str, object]:
    return {} if key is None else {"each": {key: json.dumps(report.get(key) or {})}}

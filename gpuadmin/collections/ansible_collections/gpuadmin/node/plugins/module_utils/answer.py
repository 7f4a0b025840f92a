"""How a module ends: with what it did, and fails for what it could not do after the rest was done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .errors import NodeError


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
    """Compute the answer and end the module. ``key``: what a report always has, empty where nothing was begun."""
    try:
        done = answer()
    except (NodeError, OSError) as error:
        empty: dict[str, object] = {} if key is None else {key: {}}
        module.fail_json(msg=str(error), operations=[], report={**empty, "problems": [str(error)]})
        return
    changed = bool(done.operations) if done.changed is None else done.changed
    result: dict[str, object] = {"changed": changed, "operations": done.operations, "report": done.report}
    if done.diff is not None:
        result["diff"] = done.diff
    if done.conflicts:
        module.fail_json(msg="; ".join(done.conflicts), **result)
        return
    module.exit_json(**result)

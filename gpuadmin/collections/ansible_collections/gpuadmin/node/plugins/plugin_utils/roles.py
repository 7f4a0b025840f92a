"""Which roles a playbook runs, and when: read from the playbook itself, so that it is said once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_CALLS = ("ansible.builtin.include_role", "ansible.builtin.import_role")
_WHOLE = ("main", "converge")  # other files of tasks rely on less than the role does


@dataclass(frozen=True)
class Called:
    """``when``: conditions that all have to hold on a host."""

    name: str
    when: tuple[Any, ...] = ()


def called_by(plays: Iterable[Mapping[str, Any]]) -> list[Called]:
    """Given the plays of a playbook, return the roles that are run whole, in their order."""
    found = []
    for play in plays:
        found += [Called(one["role"], _conditions(one)) for one in play.get("roles", ())]
        for task in play.get("tasks", ()):
            for call in (task[kind] for kind in _CALLS if kind in task):
                if call.get("tasks_from", "main") in _WHOLE:
                    found.append(Called(call["name"], _conditions(task)))
    return found


def _conditions(task: Mapping[str, Any]) -> tuple[Any, ...]:
    when = task.get("when", ())
    return tuple(when) if isinstance(when, list | tuple) else (when,)

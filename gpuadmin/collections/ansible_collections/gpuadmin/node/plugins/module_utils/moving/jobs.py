"""The storage host's jobs, each done in a unit: homes are copied, or taken and given their names.

Each home is a process of its own: whatever is in it, and whatever a node does, the others go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..backups.transfer import Remote, ssh_command
from ..each import Failed, each
from ..errors import NodeError, in_words
from ..paths import RUN, STATE
from . import access, placing, taking
from .record import Part
from .taking import Task


def tasks(arguments: Mapping[str, Any]) -> list[Task]:
    """The homes that a job is about."""
    state = arguments.get("state", STATE)
    found = []
    for raw in arguments["parts"]:
        given = dict(raw)
        address, size = str(given.pop("address")), int(given.pop("size"))
        command = arguments.get("command") or ssh_command(address, access.key_file(state), access.known_hosts(state))
        remote = Remote(str(given["host"]), (*command, *([str(given["host"])] if arguments.get("command") else ())))
        found.append(Task(Part(**given), arguments["root"], remote, size, state, arguments.get("run", RUN)))
    return sorted(found, key=lambda task: (task.size, task.part.name, task.part.host))


def _people(found: Sequence[Task]) -> dict[str, list[Task]]:
    people: dict[str, list[Task]] = {}
    for task in found:
        people.setdefault(task.part.name, []).append(task)
    return people


def _all(found: Sequence[Task], function: Any, workers: int) -> tuple[list[Part], dict[str, str]]:
    """Do it for all homes. Returns what came of them, and who has a problem."""
    parts: list[Part] = []
    problems: dict[str, str] = {}
    for task, answer in each(function, found, workers, lambda one: one.seconds):
        if isinstance(answer, Failed):
            problems.setdefault(task.part.name, answer.why)
        else:
            parts.append(answer)
    return parts, problems


def copy(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Fetch homes while their people work."""
    parts, problems = _all(tasks(arguments), taking.copy, arguments["workers"])
    return {"parts": [asdict(one) for one in parts], "problems": problems}


def take(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Fetch what has changed, and give the homes of those who are here whole their names.

    ``between``: who has a problem, and homes that have their names all the same.
    """
    found = tasks(arguments)
    parts, problems = _all(found, taking.take, arguments["workers"])
    placed: list[Part] = []
    between: list[str] = []
    for name, own in _people(found).items():
        theirs = [one for one in parts if one.name == name]
        # guard: a person's homes get their names together, or none does
        if name in problems or len(theirs) != len(own):
            continue
        try:
            with taking.arriving(own[0]) as at:
                done = placing.settle(arguments["root"], own[0].state, theirs, arguments["skeleton"], at)
                placed += done
                placing.tidy(at, done, arguments["skeleton"])
        except (NodeError, OSError) as error:
            problems[name] = in_words(error)
            between += [name] if placing.any_placed(arguments["root"], theirs) else []
    return {"parts": [asdict(one) for one in placed], "problems": problems, "between": between}

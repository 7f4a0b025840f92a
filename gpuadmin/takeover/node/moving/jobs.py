"""The storage host's jobs, each done in a unit: homes are copied, or taken and given their names.

Each home is a process of its own: whatever is in it, and whatever a node does, the others go on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.background import progress_writer
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.transfer import Remote, ssh_command
from ansible_collections.gpuadmin.node.plugins.module_utils.each import Failed, each
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import RUN, STATE

from . import access, placing, record, taking
from .record import Part
from .taking import Task

VERB = "move-homes"


def tasks(arguments: Mapping[str, Any]) -> list[Task]:
    """The homes that a job is about."""
    state = arguments.get("state", STATE)
    found = []
    for raw in arguments["homes"]:
        part = Part(**raw)
        if "command" in arguments:  # of tests
            command = (*arguments["command"], part.host)
        else:
            address = str(arguments["nodes"][part.host]["address"])
            command = ssh_command(address, access.key_file(state), access.known_hosts(state))
        found.append(Task(part, arguments["root"], Remote(part.host, command), state, arguments.get("run", RUN)))
    return sorted(found, key=lambda task: (task.part.bytes, task.part.name, task.part.host))


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
    """Fetch what has changed, and give the homes of those who are here whole their names, each person's at once.

    ``between``: who has a problem, and homes that have their names all the same. The progress of the job is what it
    would return by then: who is in it is let in while others are waited for.
    """
    bounded = [taking.with_bound(one) for one in tasks(arguments)]
    # guard: who has little is not kept out until the end of one that takes long -> bounded[::-1]
    found = sorted(bounded, key=lambda task: task.bound)
    people, here = _people(found), dict[str, list[Part]]()
    done: dict[str, Any] = {"parts": [], "problems": {}, "between": []}
    say = progress_writer(VERB, arguments.get("run", RUN))
    for task, answer in each(taking.take, found, arguments["workers"], lambda one: one.seconds):
        name = task.part.name
        if isinstance(answer, Failed):
            done["problems"].setdefault(name, taking.note_late(task) if answer.late else answer.why)
            # guard: whose home had its name before is not let in because nothing was to be taken
            if name not in done["between"] and _placed(arguments["root"], people[name]):
                done["between"].append(name)
        else:
            here.setdefault(name, []).append(answer)
        # guard: a person's homes get their names together, or none does -> here.get(name)
        if name not in done["problems"] and len(here[name]) == len(people[name]):
            _settle(arguments, people[name][0], here[name], done)
        say(json.dumps(done))
    return done


def _settle(arguments: Mapping[str, Any], task: Task, theirs: Sequence[Part], done: dict[str, Any]) -> None:
    name = task.part.name
    try:
        with taking.arriving(task) as at:
            placed = placing.settle(arguments["root"], task.state, theirs, arguments["skeleton"], at)
        done["parts"] += [asdict(one) for one in placed]
    except (NodeError, OSError) as error:
        done["problems"][name] = in_words(error)
        done["between"] += [name] if placing.any_placed(arguments["root"], theirs) else []


def _placed(root: str, own: Sequence[Task]) -> bool:
    known = (record.load(one.state, one.part.name, one.part.host) for one in own)
    try:
        return placing.any_placed(root, [one for one in known if one is not None])
    except NodeError:  # guard: whose record is damaged is not let in, and keeps nobody else out
        return True


def take_back(root: str, parts: Sequence[Part], state: str = STATE, run: str = RUN) -> None:
    """Take a person's homes, which have their names, back to where they arrived. Raises NodeError, OSError."""
    with taking.arriving(Task(parts[0], root, Remote("", ()), state=state, run=run)) as at:
        placing.unsettle(root, state, parts, at)

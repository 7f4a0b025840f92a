"""gpuadmin.node.preflight on the controller: finds what keeps roles from working on a host before one changes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.gpuadmin.node.plugins.action import operation
from ansible_collections.gpuadmin.node.plugins.plugin_utils.documents import filled
from ansible_collections.gpuadmin.node.plugins.plugin_utils.roles import Called, called_by

_MODULES = "gpuadmin.node."
_LOOKS_ONLY = "gpuadmin.node.host_facts"  # needs no check mode, in which a host does not get the code that it keeps
_KEYS = frozenset(("look", "look_when_held", "variables", "obstacles"))
LONGEST, MOST = 600, 40  # characters of an obstacle; obstacles of a host


@dataclass
class Found:
    """``obstacles``: what keeps the host from being changed; ``people``: conflicts of single people, which do not."""

    obstacles: list[str] = field(default_factory=list)
    people: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """All of it, each once."""
        lines = list(dict.fromkeys(_sentence(line) for line in self.obstacles + self.people))
        return lines if len(lines) <= MOST else [*lines[:MOST], f"and {len(lines) - MOST} more"]


def _sentence(text: object) -> str:
    line = re.sub(r"\s+", " ", str(text)).strip()
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


class ActionModule(operation.ActionModule):
    """Reads ``meta/preflight.yml`` of the roles, looks where they say, and fails with all obstacles at once."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        done: dict[str, Any] = super(operation.ActionModule, self).run(tmp, variables)
        _, given = self.validate_argument_spec({"playbook": {"type": "bool", "default": False}})
        path = Path(variables["role_path"])
        # this task's own role gathers the facts that the others need
        names = [
            path.name,
            # guard: obstacles of all roles are found before the first one changes a host
            *(name for name in self._of_playbook(variables, given) if name != path.name),
        ]
        found, really = Found(), self._task.check_mode
        held: list[Role] = []
        for name in names:
            role = Role(self, path.parent / name, variables, found)
            held.append(role)
            if role.examine():
                break
        for role in held if found.obstacles else ():
            role.look("look_when_held")
        self._task.check_mode = really
        if found.facts:
            done["ansible_facts"] = found.facts
        if found.obstacles:
            lines = found.lines()
            done.update(
                failed=True,  # guard: a host with an obstacle is not changed -> False
                msg="; ".join(line.rstrip(".") for line in lines),
                obstacles=lines,
            )
        return done

    def _of_playbook(self, variables: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
        """The roles that this play's playbook runs on this host and that have something to look for."""
        if not given["playbook"]:
            return []
        file = Path(self._task._parent._play.get_path().rpartition(":")[0])
        templar = self._templar.copy_with_new_env(available_variables=dict(variables))
        roles = Path(variables["role_path"]).parent
        plays = self._loader.load_from_file(str(file), cache="none", trusted_as_template=True)
        return [
            one.name
            for one in called_by(plays)
            if (roles / one.name / "meta/preflight.yml").exists() and self._concerns(templar, one)
        ]

    @staticmethod
    def _concerns(templar: Any, one: Called) -> bool:
        return all(templar.evaluate_conditional(condition) for condition in one.when)


class Role:
    """A role on the host of a task, with the variables that its own tasks would have."""

    def __init__(self, action: ActionModule, path: Path, variables: Mapping[str, Any], found: Found) -> None:
        self.action, self.path, self.given, self.found = action, path, variables, found
        self.files: dict[str, Any] = {}  # each is read once
        self.own = self._load("meta/preflight.yml")
        if not isinstance(self.own, Mapping) or not set(self.own) <= _KEYS:
            raise AnsibleActionFail(f"{path}/meta/preflight.yml may have {', '.join(sorted(_KEYS))}")
        self.stops = False  # nothing else can be asked of such a host

    def _load(self, name: str) -> Any:
        if name not in self.files:
            file = self.path / name
            self.files[name] = (
                self.action._loader.load_from_file(str(file), cache="none", trusted_as_template=True) or {}
                if file.exists()
                else {}
            )
        return self.files[name]

    def _variables(self, **more: Any) -> dict[str, Any]:
        """As Ansible orders them: defaults, what the inventory and the play give, the role's own."""
        facts = {**self.given.get("ansible_facts", {}), **self.found.facts}
        return {
            **self._load("defaults/main.yml"), **self.given, **self._load("vars/main.yml"), "ansible_facts": facts,
            "role_path": str(self.path), "role_name": self.path.name, **more,
        }  # fmt: skip

    def _templar(self, variables: dict[str, Any]) -> Any:
        return self.action._templar.copy_with_new_env(available_variables=variables)

    def examine(self) -> bool:
        """Look, and note what is in the way. Returns True where nothing else can be asked of the host."""
        if self.look("look"):
            return True
        self._arguments()
        variables = self._variables()
        file = self.own.get("variables")
        if file is not None:
            variables |= self._load(f"vars/{self._templar(variables).template(file)}")
        for obstacle in self.own.get("obstacles", ()):
            for line in self._broken(obstacle, variables):
                self.found.obstacles.append(line)
                self.stops = self.stops or bool(obstacle.get("stops"))
        return self.stops

    def _broken(self, obstacle: Mapping[str, Any], variables: dict[str, Any]) -> Iterator[str]:
        """The sentences of an obstacle whose conditions do not hold. One that cannot be evaluated does not hold."""
        templar = self._templar(variables)
        items = templar.template(obstacle["loop"]) if "loop" in obstacle else [None]
        for item in items:
            templar = self._templar({**variables, "item": item})
            try:
                if not all(templar.evaluate_conditional(one) for one in _listed(obstacle.get("when", ()))):
                    continue
                if all(templar.evaluate_conditional(one) for one in _listed(obstacle["that"])):
                    continue
                yield _sentence(templar.template(obstacle["say"]))
            except AnsibleError as error:
                # guard: what cannot be told of a host does not hold there
                yield f"{self.path.name}: an obstacle cannot be evaluated: {error}"

    def _arguments(self) -> None:
        """Check the role's variables by its argument_specs, as Ansible does where the role is run by itself."""
        options = self._load("meta/argument_specs.yml")["argument_specs"]["main"]["options"]
        variables = self._variables()
        templar = self._templar(variables)
        try:
            given = {name: templar.template(variables[name]) for name in options if name in variables}
        except AnsibleError as error:
            self.found.obstacles.append(f"{self.path.name}: {error}")
            return
        checked = ArgumentSpecValidator(options).validate(given, validate_role_argument_spec=True)
        self.found.obstacles += [f"{self.path.name}: {message}" for message in checked.error_messages]

    def look(self, key: str) -> bool:
        """Ask the modules in these files of tasks what they would do. Returns True where the host has no facts then."""
        for file in _listed(self.own.get(key, ())):
            for task in self._load(f"tasks/{file}"):
                for module in [name for name in task if name.startswith(_MODULES)]:
                    answer = self._ask(module, task[module])
                    self.found.facts |= answer.get("ansible_facts") or {}
                    if answer.get("failed"):
                        # a module that names conflicts still answers for everybody else
                        kind = (
                            self.found.people
                            if answer.get("conflicts")  # guard: one person's conflict holds nobody else
                            else self.found.obstacles
                        )
                        kind += [str(one) for one in answer.get("conflicts") or [answer.get("msg")]]
                        if module == _LOOKS_ONLY:
                            return True
        return False

    def _ask(self, module: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        variables = self._variables()
        render = self._templar(variables).template
        given = filled(module, self.path.name, render(arguments or {}), variables, render)
        # guard: a look for obstacles changes nothing
        self.action._task.check_mode = module != _LOOKS_ONLY or self.action._task.check_mode
        return self.action.call(module, given, dict(self.given))


def _listed(value: object) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else [value]

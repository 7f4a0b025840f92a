"""What a run of a playbook is made from: the arguments, the environment and the variables of ansible-playbook."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuadmin.ansible import connections
from gpuadmin.ansible.admin_keys import AdminKeys
from gpuadmin.content import collections_path, content_path
from gpuadmin.reading import expanded

# The part of the controller's environment that Ansible and ssh may see. ansible-runner stores a run's environment, so
# what is not needed (tokens, passwords) is not there to be stored.
_KEPT_ENVIRONMENT = ("HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "TMPDIR", "XDG_RUNTIME_DIR", "TZ")
MAX_FORKS = 200
# Lists of people, and what is measured, go as one text each: Ansible walks every value of a structure several times for
# each host, which for thousands of people is minutes (docs/decisions/0075). gpuadmin.desired and operations know
# them as JSON.
_AS_TEXT = ("gpuadmin_users", "gpuadmin_absent", "gpuadmin_addresses", "gpuadmin_metrics")
#: What Ansible reads from no variable of the environment: seconds between two looks whether a host is done. It looks a
#: thousand times a second by itself, which takes a tenth of a processor for as long as a run waits for hosts.
SETTINGS = "[defaults]\ninternal_poll_interval = 0.02\n"
LIBEXEC = Path(__file__).resolve().parents[1] / "libexec"


@dataclass(frozen=True)
class Secrets:
    """Passwords, held in memory for the length of a run. Never in argv, a file, or this object's repr."""

    ssh: str | None = field(default=None, repr=False)
    become: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Invocation:
    """Everything that one run of a playbook is made from."""

    playbook: str | Path  # a name of ours, or the path of an admin's own
    inventory: tuple[Path, ...]
    known_hosts: Path
    hosts: int
    variables: Mapping[str, Any] = field(default_factory=dict)
    limit: str | None = None
    check: bool = False
    verbosity: int = 0
    secrets: Secrets = Secrets()
    keys: AdminKeys = field(default_factory=AdminKeys)
    log: Path | None = None  # Ansible's output is added to it


def command_line(invocation: Invocation, variables_file: Path) -> list[str]:
    """The ansible-playbook arguments beside playbook, inventory and limit."""
    arguments = [
        "--diff",
        "--forks",
        str(max(5, min(invocation.hosts, MAX_FORKS))),
        "--extra-vars",
        f"@{variables_file}",
    ]
    if invocation.check:  # guard: check mode is check mode on the hosts
        arguments.append("--check")
    if invocation.secrets.ssh is not None:
        arguments.append("--ask-pass")
    if invocation.secrets.become is not None:
        arguments.append("--ask-become-pass")
    if invocation.verbosity > 1:
        arguments.append("-" + "v" * (invocation.verbosity - 1))
    return arguments


def environment(invocation: Invocation, directory: Path, control: Path) -> dict[str, str]:
    """The whole environment of ansible-playbook: settings that a run needs, and nothing of the checkout's."""
    shared: tuple[str, ...] = connections.SHARED
    if invocation.keys.ask and invocation.secrets.ssh is None:
        # ssh would ask for a passphrase on a terminal that nobody sees, for minutes
        shared = (*shared, "-o", "BatchMode=yes")
    # guard: a run's environment is ours alone -> {name: os.environ[name] for name in os.environ}
    kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    # macOS before 15 has no C.UTF-8
    locale = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"
    return kept | {
        "PATH": f"{LIBEXEC}:{Path(sys.executable).parent}:{connections.SYSTEM_PATH}",
        "LANG": locale,
        "LC_ALL": locale,
        # macOS ends Ansible's workers without it (https://github.com/ansible/ansible/issues/76322)
        "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES",
        "ANSIBLE_CONFIG": str(directory / "ansible.cfg"),  # guard: a run's settings are ours alone
        "ANSIBLE_ROLES_PATH": str(content_path("roles")),
        "ANSIBLE_COLLECTIONS_PATH": f"{collections_path()}:{expanded('~/.ansible/collections')}",
        "ANSIBLE_LOCAL_TEMP": str(directory / "tmp"),
        # Ansible's ssh, but no host's answer ends the run of the others (docs/decisions/0144)
        "ANSIBLE_TRANSPORT": "gpuadmin.node.ssh",  # guard: what hosts answer goes through the vetting
        "ANSIBLE_HOST_KEY_CHECKING": "True",  # guard: Ansible checks host keys -> 'False'
        "ANSIBLE_PIPELINING": "True",
        # a module would write its arguments into the host's journal: keys, a mail password, everybody's applications
        "ANSIBLE_NO_TARGET_SYSLOG": "True",  # guard: what modules are given is not in hosts' journals
        # without it a run would go on without the variables of hosts
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True",  # guard: a run needs its whole inventory
        "ANSIBLE_CALLBACKS_ENABLED": "gpuadmin.node.shared_memory",
        "ANSIBLE_SSH_ARGS": shlex.join((*shared, *connections.options(invocation.known_hosts))),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(control),
        "ANSIBLE_SSH_RETRIES": "1",
        "ANSIBLE_TIMEOUT": "60",  # seconds until sudo must have begun; a node that computes at full load is slow
        "ANSIBLE_INJECT_FACT_VARS": "False",
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_DEPRECATION_WARNINGS": "False",
        "ANSIBLE_FORCE_COLOR": "False",
        "ANSIBLE_NOCOLOR": "True",
        "ANSIBLE_NOCOWS": "True",
        "ANSIBLE_RETRY_FILES_ENABLED": "False",
        "ANSIBLE_LOCALHOST_WARNING": "False",
        # characters; ansible-runner empties larger results (a thousand people's are 900,000), `changed` and all
        "MAX_EVENT_RES": str(2**40),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def extra_variables(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Given a playbook's variables, return what its file has: nothing is a template, lists of people are text."""
    # guard: people as one text are no template -> {name: json.dumps(value) for name, value in variables.items()}
    return {
        name: unsafe(json.dumps(value, ensure_ascii=False) if name in _AS_TEXT else value)
        for name, value in variables.items()
    }


def unsafe(value: Any) -> Any:
    """Given data, return it with every string marked so that Ansible never takes it for a template."""
    if isinstance(value, str):
        return {"__ansible_unsafe": value}  # guard: user data is not a template -> value
    if isinstance(value, Mapping):
        return {key: unsafe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [unsafe(item) for item in value]
    return value

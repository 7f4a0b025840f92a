"""Running a playbook: `Invocation` in, `RunResult` out. The only place that knows ansible-runner.

What a verb runs goes through `gpuadmin.session`, which knows the site, the passwords and the record.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ansible_runner

from gpuadmin.ansible import connections
from gpuadmin.ansible.events import Collector
from gpuadmin.ansible.interrupt import handed_on
from gpuadmin.content import collections_path, content_path
from gpuadmin.errors import GpuadminError
from gpuadmin.results import RunResult

# What of the controller's environment Ansible and ssh may see. ansible-runner stores the environment of a run, so
# what is not needed (tokens, passwords) is not there to be stored.
_KEPT_ENVIRONMENT = ("HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "TMPDIR", "XDG_RUNTIME_DIR", "TZ")
MAX_FORKS = 200
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LIBEXEC = Path(__file__).resolve().parents[1] / "libexec"


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
    if invocation.check:
        arguments.append("--check")
    if invocation.secrets.ssh is not None:
        arguments.append("--ask-pass")
    if invocation.secrets.become is not None:
        arguments.append("--ask-become-pass")
    if invocation.verbosity > 1:
        arguments.append("-" + "v" * (invocation.verbosity - 1))
    return arguments


def environment(invocation: Invocation, work: Path, control: Path) -> dict[str, str]:
    """The whole environment of ansible-playbook: settings that a run needs, and nothing of the checkout's."""
    known_hosts = " ".join(_quoted(path) for path in (invocation.known_hosts, Path("~/.ssh/known_hosts").expanduser()))
    ssh = (
        f"-C -o ControlMaster=auto -o ControlPersist=300s -o StrictHostKeyChecking=yes -o ConnectTimeout=20 "
        f"-o ServerAliveInterval=15 -o ServerAliveCountMax=4 -o UserKnownHostsFile='{known_hosts}'"
    )
    kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    return kept | {
        "PATH": f"{_LIBEXEC}:{Path(sys.executable).parent}:{_SYSTEM_PATH}",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_CONFIG": str(work / "ansible.cfg"),
        "ANSIBLE_ROLES_PATH": str(content_path("roles")),
        "ANSIBLE_COLLECTIONS_PATH": f"{collections_path()}:{Path('~/.ansible/collections').expanduser()}",
        "ANSIBLE_LOCAL_TEMP": str(work / "tmp"),
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_SSH_ARGS": ssh,
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


def unsafe(value: Any) -> Any:
    """Given data, return it with every string marked so that Ansible never takes it for a template."""
    if isinstance(value, str):
        return {"__ansible_unsafe": value}
    if isinstance(value, Mapping):
        return {key: unsafe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [unsafe(item) for item in value]
    return value


def run(
    invocation: Invocation,
    *,
    on_task: Callable[[str], None] = lambda name: None,
    on_host: Callable[[str, str, str], None] = lambda host, outcome, detail: None,
) -> RunResult:
    """Run a playbook to its end, or until a signal ends it.

    `on_task(name)` and `on_host(host, outcome, detail)` are told what happens while it happens. Raises GpuadminError
    only when Ansible could not be started at all; what goes wrong on hosts is in the result.
    """
    if shutil.which("ssh", path=_SYSTEM_PATH) is None:
        raise GpuadminError(
            "this machine has no ssh",
            hint="Debian, Ubuntu: apt install openssh-client; Fedora: dnf install openssh-clients; Arch: openssh",
        )
    playbook = (
        invocation.playbook
        if isinstance(invocation.playbook, Path)
        else content_path("playbooks", f"{invocation.playbook}.yml")
    )
    collector = Collector(on_task=on_task, on_host=on_host)
    work = Path(tempfile.mkdtemp(prefix="gpuadmin-"))
    control = connections.directory(invocation.known_hosts)
    try:
        (work / "tmp").mkdir()
        # an empty one, so that none of the current directory, the home or /etc is read
        (work / "ansible.cfg").touch()
        variables_file = work / "variables.json"
        descriptor = os.open(variables_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump({name: unsafe(value) for name, value in invocation.variables.items()}, stream, default=str)
        passwords = {}
        if invocation.secrets.ssh is not None:
            passwords[r"^SSH password:\s*?$"] = invocation.secrets.ssh
        if invocation.secrets.become is not None:
            passwords[r"^BECOME password.*:\s*?$"] = invocation.secrets.become
        with _scrubbed_environment(environment(invocation, work, control)), handed_on() as signals:
            runner = ansible_runner.run(
                private_data_dir=str(work),
                playbook=str(playbook),
                inventory=[str(source) for source in invocation.inventory],
                cmdline=shlex.join(command_line(invocation, variables_file)),
                limit=invocation.limit,
                passwords=passwords or None,
                suppress_env_files=True,
                quiet=True,
                event_handler=collector.event,
                cancel_callback=lambda: False,
            )
        output = work / "artifacts" / str(runner.config.ident) / "stdout"
        text = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
        if invocation.log is not None:
            _append_private(invocation.log, text)
        interrupted = bool(signals) or runner.rc in (99, 250 + 5)
        if interrupted:
            connections.close(control)
        error = None
        if runner.rc != 0 and not interrupted and not any(host.bad for host in collector.hosts.values()):
            error = _last_words(text)
        return RunResult(hosts=collector.hosts, interrupted=interrupted, error=error)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _quoted(path: Path) -> str:
    # ssh splits UserKnownHostsFile at blanks and reads double quotes; the whole list stands in single quotes
    return f'"{path}"' if " " in str(path) else str(path)


def _append_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)


def _last_words(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    for index, line in enumerate(lines):
        if "ERROR" in line:
            return "\n".join(lines[index : index + 4])
    return lines[-1] if lines else "Ansible ended without a word"


@contextmanager
def _scrubbed_environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """ansible-runner hands on and stores the environment of this process: for the length of a run it is ours."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(wanted)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)

"""Running a playbook: `Invocation` in, `RunResult` out. The only place that knows ansible-runner."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuadmin.content import collections_path, content_path
from gpuadmin.errors import GpuadminError
from gpuadmin.events import Collector, HostResult

# What of the controller's environment Ansible and ssh may see. ansible-runner stores the environment of a run, so
# what is not needed (tokens, passwords) is not there to be stored.
_KEPT_ENVIRONMENT = ("HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "TMPDIR", "XDG_RUNTIME_DIR", "TZ")
MAX_FORKS = 200
_GRACE = 15.0  # seconds that an interrupted ansible-playbook has before it is asked again
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LIBEXEC = Path(__file__).resolve().parent / "libexec"


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
    log: Path | None = None


@dataclass(frozen=True)
class RunResult:
    """What came of a run."""

    hosts: dict[str, HostResult]
    interrupted: bool = False
    error: str | None = None


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
    import ansible_runner

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
    control = _control_directory(invocation.known_hosts)
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
        with _scrubbed_environment(environment(invocation, work, control)), _signals() as signals:
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
            _write_private(invocation.log, text)
        interrupted = bool(signals) or runner.rc in (99, 250 + 5)
        if interrupted:
            _close_connections(control)
        error = None
        if runner.rc != 0 and not interrupted and not any(host.bad for host in collector.hosts.values()):
            error = _last_words(text)
        return RunResult(hosts=collector.hosts, interrupted=interrupted, error=error)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _quoted(path: Path) -> str:
    # ssh splits UserKnownHostsFile at blanks and reads double quotes; the whole list stands in single quotes
    return f'"{path}"' if " " in str(path) else str(path)


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)


def _last_words(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    for index, line in enumerate(lines):
        if "ERROR" in line:
            return "\n".join(lines[index : index + 4])
    return lines[-1] if lines else "Ansible ended without a word"


def _control_directory(known_hosts: Path) -> Path:
    """Where ssh keeps its sockets: a short path, because a socket's name has at most 107 bytes; ours alone.

    One for each site: a connection that another site's host keys opened must not serve this one, nor end with its run.
    """
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp")
    directory = base / f"gpuadmin-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or directory.is_symlink():
        raise GpuadminError(
            f"{directory}: belongs to somebody else or is open to others",
            hint="delete it, or set XDG_RUNTIME_DIR",
        )
    own = directory / hashlib.sha256(os.fsencode(known_hosts.absolute())).hexdigest()[:8]
    own.mkdir(mode=0o700, exist_ok=True)
    return own


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


@contextmanager
def _signals() -> Iterator[list[int]]:
    """While a playbook runs, hand the signals that end us on to ansible-playbook itself, and remember them.

    ansible-runner's own cancel kills the process group, but ansible-core's workers have sessions of their own and
    would stay. Asked with SIGINT, ansible-playbook ends its workers; now and then it then waits for ever for one of
    its own threads. So it is asked again, less politely, after a while or when a second signal comes.
    """
    received: list[int] = []
    timers = [
        threading.Timer(_GRACE, _end_playbooks, [signal.SIGTERM]),
        threading.Timer(2 * _GRACE, _end_playbooks, [signal.SIGKILL]),
    ]

    def handler(number: int, _frame: object) -> None:
        received.append(number)
        _end_playbooks(signal.SIGINT if len(received) == 1 else signal.SIGTERM)
        if len(received) == 1:
            for timer in timers:
                timer.start()

    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {name: signal.signal(name, handler) for name in names}
    try:
        yield received
    finally:
        for name, previous in before.items():
            signal.signal(name, previous)
        for timer in timers:
            timer.cancel()


def _end_playbooks(number: signal.Signals) -> None:
    """Send a signal to our ansible-playbook; one that is not passed on, to all its workers too."""
    processes = _children(os.getpid())
    if number == signal.SIGKILL:
        processes += [worker for process in processes for worker in _children(process)]
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def _children(parent: int) -> list[int]:
    """The ids of those children of a process that are ansible-playbook or a worker of it."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            of = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if of == parent and b"ansible-playbook" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, ValueError, IndexError):
            continue  # it ended while we looked
    return found


def _close_connections(control: Path) -> None:
    """Ask the ssh connections that would wait for the next run to end now; those that another run uses, after it."""
    import subprocess

    for socket in control.iterdir():
        if socket.is_socket():
            subprocess.run(
                ["ssh", "-o", f"ControlPath={socket}", "-O", "stop", "gpuadmin"],
                check=False,
                capture_output=True,
                timeout=10,
            )

"""Running a playbook: `Invocation` in, `RunResult` out. The only place that knows ansible-runner.

What a verb runs goes through `gpuadmin.session`, which knows the site, the passwords and the record.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuadmin.ansible import connections
from gpuadmin.ansible.events import Collector
from gpuadmin.ansible.finished import Finished
from gpuadmin.ansible.interrupt import handed_on, until_ended
from gpuadmin.ansible.invocation import LIBEXEC, SETTINGS, Invocation, command_line, environment, extra_variables
from gpuadmin.content import content_path
from gpuadmin.errors import GpuadminError
from gpuadmin.results import HostResult, RunResult


def run(
    invocation: Invocation,
    *,
    on_task: Callable[[str], None] = lambda name: None,
    on_host: Callable[[str, str, str], None] = lambda host, outcome, detail: None,
) -> RunResult:
    """Run a playbook to its end, or until a signal ends it.

    `on_task(name)` and `on_host(host, outcome, detail)` are called while the run goes on. Raises GpuadminError
    only when Ansible could not be started at all; what goes wrong on hosts is in the result.
    """
    import ansible_runner  # a verb that asks Prometheus or the site alone does without

    connections.require_ssh()
    playbook = (
        invocation.playbook
        if isinstance(invocation.playbook, Path)
        else content_path("playbooks", f"{invocation.playbook}.yml")
    )
    collector, finished = Collector(on_task=on_task, on_host=on_host), Finished()

    def heard(event: Mapping[str, Any]) -> bool:
        finished.event(event)
        return collector.event(event)

    control = connections.directory(invocation.known_hosts, invocation.keys.files)
    private = Path(tempfile.mkdtemp(prefix="gpuadmin-"))
    try:
        if connections.replaceable(private):  # guard: nobody can put another run in the place of ours
            raise GpuadminError(
                f"{private.parent}: others can replace what is in it, and what a run is made from with it",
                hint=f"chmod 1777 {private.parent}, as every system has /tmp, or set TMPDIR to a directory of yours",
            )
        (private / "tmp").mkdir()
        # one of ours, so that none in the current directory, the home or /etc is read
        (private / "ansible.cfg").write_text(SETTINGS, encoding="utf-8")
        variables_file = private / "variables.json"
        descriptor = os.open(variables_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(extra_variables(invocation.variables), stream, default=str)
        passwords = {}
        if invocation.secrets.ssh is not None:
            passwords[r"^SSH password:\s*?$"] = invocation.secrets.ssh
        if invocation.secrets.become is not None:
            passwords[r"^BECOME password.*:\s*?$"] = invocation.secrets.become
        with (
            handed_on() as signals,  # until nothing of the run is left
            _told_when_over(private) as alive,
            _scrubbed_environment({**environment(invocation, private, control), "GPUADMIN_ALIVE": str(alive)}),
        ):
            runner = ansible_runner.run(
                private_data_dir=str(private),
                playbook=str(playbook),
                inventory=[str(source) for source in invocation.inventory],
                cmdline=shlex.join(command_line(invocation, variables_file)),
                limit=invocation.limit,
                passwords=passwords or None,
                suppress_env_files=True,  # guard: passwords are in no file -> False
                quiet=True,
                event_handler=heard,
                cancel_callback=lambda: False,
            )
        output = private / "artifacts" / str(runner.config.ident) / "stdout"
        text = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
        if invocation.log is not None:
            _append_private(invocation.log, text)
        asked = bool(signals) or runner.rc in (99, 250 + 5)
        killed = runner.rc is None and not signals
        # a worker was killed, or a disk is full: that one host did not succeed says nothing of the others
        # guard: a run that Ansible did not bring to its end is not whole -> False
        broken = not asked and bool(runner.rc) and bool(collector.hosts) and not finished.ended
        # guard: a run whose ansible-playbook was killed is not whole -> asked or broken
        interrupted = asked or broken or killed
        if interrupted:
            connections.close(invocation.known_hosts)
            left = finished.unfinished(list(collector.hosts), playbook, content_path("roles"), invocation.variables)
            _mark(collector.hosts, left, finished.busy)
        error = "ansible-playbook was killed on this machine; perhaps it had no memory left" if killed else None
        bad = any(host.bad for host in collector.hosts.values())
        if broken or (runner.rc != 0 and not interrupted and not bad):
            error = _last_output(text)
        found = RunResult(hosts=collector.hosts, interrupted=interrupted, error=error)
        return found if invocation.secrets.ssh is not None else invocation.keys.blamed(found)
    finally:
        shutil.rmtree(private, ignore_errors=True)


def _mark(hosts: Mapping[str, HostResult], unfinished: Sequence[str], busy: Callable[[str], bool]) -> None:
    """Mark the hosts that an interrupted run had not finished: what was done there is done, and the rest is not."""
    for name in unfinished:
        host = hosts[name]
        # guard: of whom no task was heard, one may have been done in part -> host != HostResult()
        if not host.bad and (host != HostResult() or busy(name)):
            host.status = "interrupted"  # guard: whose end was not heard was interrupted
            host.message = "; ".join(filter(None, (host.message, "not finished: the run was interrupted")))


def _append_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)


#: What Ansible writes where the plugin gpuadmin.node.site refuses an inventory; its error names only the file.
_REFUSED_INVENTORY = "[WARNING]: Failed to parse inventory with 'auto' plugin: inventory: "


def _last_output(text: str) -> str:
    refused = text.partition(_REFUSED_INVENTORY)[2].partition("\n\n")[0]
    if refused:
        return f"inventory: {' '.join(refused.split())}"
    lines = [line for line in text.splitlines() if line.strip()]
    for index, line in reversed(list(enumerate(lines))):  # those of tasks come before that of Ansible
        if re.search(r"\bERROR\b", line):  # not a name in a traceback, whose last line has the error
            return "\n".join(lines[index : index + 4])
    return lines[-1] if lines else "Ansible ended without output"


@contextmanager
def _told_when_over(private: Path) -> Iterator[Path]:
    """A FIFO by which libexec/ansible-playbook hears that a run is over, or that this process was killed before."""
    watcher = LIBEXEC / "ansible-playbook"
    if not os.access(watcher, os.X_OK):  # guard: no run begins that goes on alone when we are killed
        raise GpuadminError(
            f"{watcher} may not be run: this gpuadmin was unpacked without modes", hint=f"chmod +x {watcher}"
        )
    alive = private / "alive"
    os.mkfifo(alive, 0o600)
    # for reading as well: there is a reader before ansible-playbook starts, and after it ended
    held = os.open(alive, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield alive
        # not where this process fails (full disk, no memory): ansible-playbook would still be running
        os.write(held, b"\n")  # guard: no process is ended that came after ansible-playbook and got its number
    finally:
        os.close(held)
        until_ended(alive)  # guard: nothing of a run goes on when it has ended here


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

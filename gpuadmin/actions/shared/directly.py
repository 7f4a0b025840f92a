"""Asking one host one thing over ssh, where a playbook would take seconds to start (docs/decisions/0183).

For looks alone, from which nothing is decided: the host answers with the code that it has, which may be an older one.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from collections.abc import Sequence

from gpuadmin.ansible.admin_keys import AdminKeys
from gpuadmin.ansible.connections import command_line, require_ssh, shared
from gpuadmin.ansible.events import LONGEST_MESSAGE, unreachable_message
from gpuadmin.ansible.reports import OddError, parsed
from gpuadmin.config.load import Site
from gpuadmin.results import HostResult, RunResult
from gpuadmin.text import one_line

SECONDS = 60.0  # until nobody answers
LARGEST = 64 * 1024 * 1024  # bytes of an answer, as of a playbook's
LAST = 10_000  # bytes of what ssh complains about; why it gave up comes last
GLANCE = 0.1  # seconds until its end is noticed where a process of it still runs
NODE_CODE = ("/usr/bin/python3", "-IB", "/var/lib/gpuadmin/lib/gpuadmin_node/cli.py")


def answer(site: Site, name: str, report: str, command: str) -> RunResult | None:
    """Given a host and a command of its cli.py, which prints a report of that name as JSON, return what it says.

    None: it does not know the command, or has no code yet. A playbook then brings it, and asks.
    """
    (host,) = site.inventory.named([name])
    line = list(NODE_CODE) if host.local else _over_ssh(site, name)
    code, output, complaint = _run([*line, command])
    if code is None or (code == 255 and not host.local):
        why = "timed out" if code is None else complaint
        silent = RunResult({name: HostResult("unreachable", message=unreachable_message(why))})
        return AdminKeys.of([host], site.settings.admin.ssh_key, None).blamed(silent)
    return _parse(name, report, output) if code == 0 else None


def _over_ssh(site: Site, name: str) -> list[str]:
    """The ssh that runs a host's cli.py, over a connection that stays open for the next look."""
    line = command_line(site, name, ("-T", *NODE_CODE))[1:]
    # the keys of all hosts, as for a playbook: with others, each run would end the other's connections
    keys = AdminKeys.unseen(site.inventory.hosts, site.settings.admin.ssh_key).files
    return [require_ssh(), *shared(site.known_hosts, keys, " ".join(line)), *line]


def _parse(name: str, report: str, output: str) -> RunResult | None:
    """What an answer says; None for one that is not understood."""
    try:
        said = json.loads(output.strip().rpartition("\n")[2])  # a login may have printed something before
        if "problem" in said:
            # guard: what a host says is wrong is as long as a playbook's at most -> str(said["problem"])
            problem = str(said["problem"])[:LONGEST_MESSAGE]
            return RunResult({name: HostResult("failed", message=one_line(problem))})
        # guard: what a host says without a playbook is parsed as well -> said[report]
        found = parsed(report, said[report])
    except (ValueError, LookupError, TypeError, RecursionError, OddError):
        return None
    return RunResult({name: HostResult("ok", reports={report: found})})


def _run(line: Sequence[str]) -> tuple[int | None, str, str]:
    """Its exit status, output and last complaint; no status for what did not end in time.

    Nothing of it is kept on a disk, and whatever it leaves behind with its streams is not waited for.
    """
    end, output, complaint = time.monotonic() + SECONDS, bytearray(), bytearray()
    with (
        subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        selectors.DefaultSelector() as streams,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        streams.register(process.stdout, selectors.EVENT_READ, output)
        streams.register(process.stderr, selectors.EVENT_READ, complaint)
        try:
            # guard: an answer without a playbook has an end
            while streams.get_map() and len(output) <= LARGEST and time.monotonic() < end:
                ready = streams.select(GLANCE)
                if not ready and process.poll() is not None:
                    break  # it has ended; its streams are somebody else's, such as a connection's that others share
                for key, _ in ready:
                    data = os.read(key.fd, 1 << 16)
                    key.data.extend(data)
                    if not data:
                        streams.unregister(key.fileobj)
                del complaint[:-LAST]  # guard: what a host complains about without end fills nothing
            if len(output) > LARGEST:
                process.kill()
            code = process.wait(max(end - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            code = None
        finally:
            process.kill()
    return code, output.decode("utf-8", "replace"), complaint.decode("utf-8", "replace")

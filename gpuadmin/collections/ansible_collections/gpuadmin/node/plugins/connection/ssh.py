"""gpuadmin.node.ssh: Ansible's ssh, which checks the form of what modules print before Ansible reads it."""

from __future__ import annotations

import resource
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.ssh import DOCUMENTATION as _OF_ANSIBLE
from ansible.plugins.connection.ssh import Connection as Ssh

from ansible_collections.gpuadmin.node.plugins.plugin_utils.vetting import LONGEST, too_long, vetted

# bytes of memory that a host's answer may take in the process of its task: Ansible has all of it before it is vetted,
# several times over
ROOM = 16 * LONGEST
# all options are Ansible's own
DOCUMENTATION = _OF_ANSIBLE


class Connection(Ssh):  # type: ignore[misc]  # Ansible has no types
    """Ansible's own connection. An invalid answer fails the task on that host, with a reason, and the other hosts go
    on."""

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Run a command. A module comes by standard input, or is a file that Ansible has put there."""
        module = in_data is not None or "AnsiballZ_" in cmd
        _bounded()  # guard: an answer without an end takes only so much memory
        try:
            status, output, errors = super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        except MemoryError:
            if module:
                return 1, too_long(), b""
            raise AnsibleConnectionFailure("its answer does not end") from None
        return status, vetted(output) if module else output, errors


def _bounded() -> None:
    """Bound this process' memory, once. Ansible makes a process for each task of a host: no other host is in it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = Path("/proc/self/statm")
    if soft != resource.RLIM_INFINITY or not pages.exists():
        return  # bounded already, or a system that does not say how much it has
    now = int(pages.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(
        resource.RLIMIT_AS, (now + ROOM if hard == resource.RLIM_INFINITY else min(now + ROOM, hard), hard)
    )

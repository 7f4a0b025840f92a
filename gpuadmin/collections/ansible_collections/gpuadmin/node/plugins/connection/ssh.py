"""gpuadmin.node.ssh: Ansible's ssh, and what modules print on a host is held to its form before Ansible reads it."""

from __future__ import annotations

from ansible.plugins.connection.ssh import DOCUMENTATION as _OF_ANSIBLE
from ansible.plugins.connection.ssh import Connection as Ssh

from ansible_collections.gpuadmin.node.plugins.plugin_utils.vetting import vetted

# all options are Ansible's own
DOCUMENTATION = _OF_ANSIBLE


class Connection(Ssh):  # type: ignore[misc]  # Ansible has no types
    """As Ansible's own; a host whose answer is odd has a task that failed, in words, and the others go on."""

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Run a command. A module comes by standard input, or is a file that Ansible has put there."""
        status, output, errors = super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        return status, vetted(output) if in_data is not None or "AnsiballZ_" in cmd else output, errors

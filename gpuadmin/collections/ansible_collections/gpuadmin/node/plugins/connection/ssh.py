"""gpuadmin.node.ssh: Ansible's ssh, which checks the form of what modules print before Ansible reads it."""

from __future__ import annotations

from ansible.plugins.connection.ssh import DOCUMENTATION as _OF_ANSIBLE
from ansible.plugins.connection.ssh import Connection as Ssh

from ansible_collections.gpuadmin.node.plugins.plugin_utils.vetting import vetted

# all options are Ansible's own
DOCUMENTATION = _OF_ANSIBLE


class Connection(Ssh):  # type: ignore[misc]  # Ansible has no types
    """Ansible's own connection. An odd answer fails the task on that host, in words, and the other hosts go on."""

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Run a command. A module comes by standard input, or is a file that Ansible has put there."""
        status, output, errors = super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        return status, vetted(output) if in_data is not None or "AnsiballZ_" in cmd else output, errors

"""Log in to a host as the admin."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gpuadmin.ansible import connections
from gpuadmin.config.load import load_site


def ssh(directory: str | None, host: str, arguments: Sequence[str]) -> int:
    """Become an ssh to a host, with more arguments for it. Does not return."""
    line = connections.command_line(load_site(directory), host, arguments)
    os.execv(connections.require_ssh(), line)

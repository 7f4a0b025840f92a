"""The ssh connections that stay open between runs, so that the next one begins at once."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from gpuadmin.errors import GpuadminError


def directory(known_hosts: Path) -> Path:
    """Where ssh keeps its sockets: a short path, because a socket's name has at most 107 bytes; ours alone.

    One for each site: a connection that another site's host keys opened must not serve this one, nor end with its run.
    """
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp")
    ours = base / f"gpuadmin-{os.getuid()}"
    try:
        ours.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:  # a file of somebody's has that name, or the directory above is not there
        raise GpuadminError(f"{ours}: {error.strerror}", hint="delete it, or set XDG_RUNTIME_DIR") from None
    status = ours.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or ours.is_symlink():
        raise GpuadminError(
            f"{ours}: belongs to somebody else or is open to others",
            hint="delete it, or set XDG_RUNTIME_DIR",
        )
    own = ours / hashlib.sha256(os.fsencode(known_hosts.absolute())).hexdigest()[:8]
    own.mkdir(mode=0o700, exist_ok=True)
    return own


def close(control: Path, *, at_once: bool = False) -> None:
    """Ask the ssh connections that would wait for the next run to end now; those that another run uses, after it.

    `at_once`: those, too. The other side of them is gone, and they would only find out after a minute.
    """
    for socket in control.iterdir():
        if socket.is_socket():
            subprocess.run(
                ["ssh", "-o", f"ControlPath={socket}", "-O", "exit" if at_once else "stop", "gpuadmin"],
                check=False,
                capture_output=True,
                timeout=10,
            )

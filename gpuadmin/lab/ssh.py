"""ssh to lab hosts: keys, the known_hosts file, and waiting until a host really lets the admin in."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from gpuadmin.ansible.connections import file_word
from gpuadmin.errors import GpuadminError, UnreachableError
from gpuadmin.lab import machines
from gpuadmin.lab.commands import Command, run
from gpuadmin.lab.seed import ADMIN
from gpuadmin.lab.state import Host, Lab

#: Seconds; a boot under software emulation takes 30, and some minutes on a machine that is busy otherwise.
BOOT_LIMIT = 900.0


def ssh_command(
    lab: Lab,
    host: Host,
    command: Sequence[str] = (),
    *,
    login: str = ADMIN,
    identity: Path | None = None,
    batch: bool = False,
) -> Command:
    """Return the command that logs in to a host, or runs something there.

    As the admin with the lab's key, unless `login` and `identity` (a private key) say otherwise; people of a twin have
    keys of their own. With `batch` it
    never asks, and gives up after ten seconds without a connection.
    """
    own = find_key(lab, login)
    identity = identity or (own if own.exists() else lab.ssh_key)
    options: Command = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10") if batch else ()
    return (
        "ssh", "-F", "none", "-o", f"IdentityFile={file_word(identity)}", "-p", str(host.ssh_port),
        "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=yes",
        "-o", "PreferredAuthentications=publickey",  # whose key is refused is not asked for a password: nobody has one
        # that a host closes the connection, as it does for a locked account, ssh says at INFO
        "-o", f"LogLevel={'ERROR' if batch else 'INFO'}",
        "-o", f"UserKnownHostsFile={file_word(lab.directory / 'known_hosts')}",
        *options, f"{login}@127.0.0.1", *(("--", *command) if command else ()),
    )  # fmt: skip


def find_key(lab: Lab, name: str) -> Path:
    """Where the private key of somebody's twin is."""
    return lab.directory / "keys" / name


def make_key(path: Path, comment: str) -> None:
    """Make an ed25519 key pair without a passphrase, if it is not there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)))


def known_hosts(lab: Lab) -> str:
    """Return a known_hosts file with the key of every host, under its forwarded port and its own address."""
    lines = []
    for host in lab.hosts:
        kind, key = (lab.host_directory(host) / "ssh_host_ed25519_key.pub").read_text().split()[:2]
        lines.append(f"[127.0.0.1]:{host.ssh_port},{host.address} {kind} {key}\n")
    return "".join(lines)


def wait(lab: Lab, host: Host, limit: float = BOOT_LIMIT) -> float:
    """Wait until a host lets the admin log in, and return how many seconds that took.

    Raises UnreachableError after `limit` seconds, and at once if it ended or its boot ended in emergency mode.
    """
    begin = time.monotonic()
    console = lab.host_directory(host) / "console.log"
    old = console.stat().st_size if console.exists() else 0
    while time.monotonic() - begin < limit:
        if machines.running_pid(lab, host) is None:
            raise GpuadminError(f"{host.name} ended while it started:\n{machines.last_output(lab, host)}")
        if greets(host.ssh_port):
            done = subprocess.run(
                ssh_command(lab, host, ("true",), batch=True),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
            if done.returncode == 0:
                return time.monotonic() - begin
        if b"Reached target \x1b[0;1;39memergency.target" in output_since(console, old):
            raise GpuadminError(f"{host.name} came up in emergency mode:\n{machines.last_output(lab, host)}")
        time.sleep(0.3)  # between two attempts to log in
    end = machines.last_output(lab, host)
    raise UnreachableError(f"{host.name} did not answer ssh within {limit:.0f} s; its console ends with:\n{end}")


def output_since(console: Path, offset: int) -> bytes:
    """Return what a console log holds from an offset on."""
    try:
        with console.open("rb") as log:
            log.seek(offset)
            return log.read()
    except OSError:
        return b""


def greets(port: int, limit: float = 3.0) -> bool:
    """Tell whether an sshd says hello at a port of 127.0.0.1.

    QEMU accepts before the guest does, and is silent then.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=limit) as connection:
            connection.settimeout(limit)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False

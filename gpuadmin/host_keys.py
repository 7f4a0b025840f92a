"""ssh host keys: hosts are asked for them, and one that shows none says why."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import paramiko

from gpuadmin.ansible.events import unreachable_message
from gpuadmin.config.fields import key_fingerprint
from gpuadmin.config.inventory import Host
from gpuadmin.config.known_hosts import known_as

_TIMEOUT = 10.0  # seconds, for the connection and for the key exchange


@dataclass(frozen=True)
class HostKey:
    """A host's public key as it answered just now, or the reason why there is none."""

    host: str
    address: str
    port: int
    kind: str = ""
    blob: str = ""
    problem: str | None = None

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -lf` shows it."""
        return key_fingerprint(self.blob)

    @property
    def pattern(self) -> str:
        """The name under which known_hosts holds it."""
        return known_as(self.address, self.port)

    @property
    def line(self) -> str:
        return f"{self.pattern} {self.kind} {self.blob}"


def fetch_host_keys(hosts: Iterable[Host]) -> list[HostKey]:
    """Ask all hosts at once for their host key; what ssh would prefer, Ed25519 first."""
    with ThreadPoolExecutor(max_workers=32) as pool:
        return list(pool.map(_fetch, hosts))


def _fetch(host: Host) -> HostKey:
    # paramiko logs a traceback when a host is not an ssh server; the caller gets a sentence instead
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    base = HostKey(host.name, host.address, host.port)
    try:
        with socket.create_connection((host.address, host.port), timeout=_TIMEOUT) as connection:
            transport = paramiko.Transport(connection)
            options = transport.get_security_options()
            options.key_types = sorted(options.key_types, key=lambda kind: "ed25519" not in kind)
            try:
                transport.start_client(timeout=_TIMEOUT)
                key = transport.get_remote_server_key()
            finally:
                transport.close()
    except (OSError, EOFError, paramiko.SSHException) as error:
        return HostKey(base.host, base.address, base.port, problem=_summary(error))
    return HostKey(base.host, base.address, base.port, key.get_name(), key.get_base64())


def _summary(error: Exception) -> str:
    """Why a host did not answer, in the words that runs of playbooks use; without the number of the error."""
    if isinstance(error, socket.gaierror):
        return unreachable_message("Could not resolve hostname")
    text = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    return unreachable_message(text)

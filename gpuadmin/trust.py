"""Fetching ssh host keys and pinning them into a site."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gpuadmin.config.inventory import Host

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
        digest = hashlib.sha256(base64.b64decode(self.blob)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")

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
    import logging

    import paramiko

    # paramiko logs a traceback when a host is no ssh server; the caller gets a sentence instead
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
        return HostKey(base.host, base.address, base.port, problem=_words(error))
    return HostKey(base.host, base.address, base.port, key.get_name(), key.get_base64())


def _words(error: Exception) -> str:
    """Why a host did not answer, without the number of the error."""
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


def known_as(address: str, port: int) -> str:
    """The name under which ssh looks a host up in known_hosts."""
    return address if port == 22 else f"[{address}]:{port}"


def pinned_keys(known_hosts: str, name: str) -> dict[str, set[str]]:
    """Given the text of a known_hosts file and a host's name there, return its keys: key type → base64 of each."""
    found: dict[str, set[str]] = {}
    for line in known_hosts.splitlines():
        fields = line.split()
        if len(fields) >= 3 and not line.startswith(("#", "@")) and _names(fields[0], name):
            found.setdefault(fields[1], set()).add(fields[2])
    return found


def _names(field: str, name: str) -> bool:
    """Whether the first field of a line names a host, as ssh sees it: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT."""
    name = name.lower()
    if field.startswith("|"):
        return _hashes(field, name)
    patterns = field.lower().split(",")
    if any(_matches(pattern[1:], name) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(_matches(pattern, name) for pattern in patterns)


def _hashes(field: str, name: str) -> bool:
    """Whether `|1|SALT|HASH`, as HashKnownHosts and `ssh-keygen -H` write it, is the hash of a name."""
    parts = field.split("|")
    if len(parts) != 4 or parts[1] != "1":
        return False
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in parts[2:])
    except ValueError:
        return False
    return hmac.compare_digest(hmac.digest(salt, name.encode(), "sha1"), digest)


def _matches(pattern: str, name: str) -> bool:
    """`*` and `?` alone are special: brackets stand around an address that has a port."""
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, name) is not None


def with_pinned(known_hosts: str, keys: Iterable[HostKey]) -> str:
    """Given the text of known_hosts and new keys, return the text with each host's keys replaced by the new one.

    A line with a pattern stays: it may name other hosts as well.
    """
    new = {key.pattern: key for key in keys}

    def replaced(line: str) -> bool:
        field = line.split(" ", 1)[0]
        names = set(field.split(",")) & set(new)
        return bool(names) or (field.startswith("|") and any(_hashes(field, name.lower()) for name in new))

    kept = [line for line in known_hosts.splitlines() if line.startswith("#") or not replaced(line)]
    return "\n".join([*kept, *(key.line for key in new.values())]) + "\n"

"""What a known_hosts file says of a host, as ssh reads it: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT."""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Sequence
from pathlib import Path

from gpuadmin.errors import ConfigError
from gpuadmin.reading import read_text

_WAY_OUT = "move it away: gpuadmin trust --all then writes a new one"


def read_known_hosts(path: Path) -> str:
    """Given the path of a site's known_hosts, return its text; empty if there is none. Raises ConfigError."""
    try:
        text = read_text(path)
    except ConfigError as error:
        raise ConfigError(error.message, hint=f"{error.hint}; or {_WAY_OUT}") from None
    if "\0" in text:
        raise ConfigError(f"{path}: is not a text file", hint=_WAY_OUT)
    return text


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


def with_lines(known_hosts: str, new: Sequence[str]) -> str:
    """Given the text of a known_hosts file and new lines, return it with those in place of all that name their hosts.

    A line with a pattern stays: it may name other hosts as well.
    """
    names = {name for line in new for name in line.split(" ", 1)[0].split(",")}

    def replaced(line: str) -> bool:
        field = line.split(" ", 1)[0]
        known = not names.isdisjoint(field.split(","))
        return (
            known
            # guard: a hashed line of a host goes with its new key
            or (field.startswith("|") and any(matches_hash(field, name.lower()) for name in names))
        )

    kept = [
        line
        for line in known_hosts.splitlines()
        # guard: a new key replaces the host's own
        # guard: keys of other hosts stay -> False
        if line in new or line.startswith("#") or not replaced(line)
    ]
    return "".join(f"{line}\n" for line in [*kept, *(line for line in new if line not in kept)])


def no_keys(known_hosts: str) -> list[int]:
    """Given the text of a known_hosts file, return the lines, from 1, that hold no key: ssh passes over them."""
    return [number for number, line in enumerate(known_hosts.splitlines(), start=1) if not _is_whole(line)]


def _is_whole(line: str) -> bool:
    fields = line.split()
    if not fields or fields[0].startswith("#"):
        return True
    if fields[0] in ("@cert-authority", "@revoked"):
        del fields[0]
    if len(fields) < 3:
        return False
    try:
        blob = base64.b64decode(fields[2], validate=True)
    except ValueError:
        return False
    kind = fields[1].encode()
    return blob[:4] == len(kind).to_bytes(4, "big") and blob[4:].startswith(kind) and len(blob) >= len(kind) + 36


def _names(field: str, name: str) -> bool:
    """Whether the first field of a line names a host, as ssh sees it: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT."""
    name = name.lower()
    if field.startswith("|"):
        return matches_hash(field, name)  # guard: a hashed name in known_hosts is a host's -> False
    patterns = field.lower().split(",")
    if any(_matches(pattern[1:], name) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(_matches(pattern, name) for pattern in patterns)


def matches_hash(field: str, name: str) -> bool:
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
    """`*` and `?` alone are special: brackets are around an address that has a port."""
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, name) is not None

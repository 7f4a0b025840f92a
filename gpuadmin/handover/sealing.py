"""Secrets in a bundle that one private key opens: a tar file, sealed by age (https://age-encryption.org).

age takes ssh keys, so nobody has to make another one. What is sealed goes to it by a pipe: nothing unsealed is written.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from gpuadmin.config.fields import key_fingerprint, ssh_key
from gpuadmin.config.schema import Settings
from gpuadmin.config.yamlfile import write_new
from gpuadmin.errors import ConfigError, GpuadminError
from gpuadmin.reading import decoded, expanded, read_limited

_TAKEN = ("ssh-ed25519", "ssh-rsa")
#: age's own keys. Others begin so too: age runs a program for them whose path they name.
_OWN = re.compile(r"age1[02-9ac-hj-np-z]+")
_SEALED = b"age-encryption.org/"
_SECONDS = 60.0
README = "README.txt"


@dataclass(frozen=True)
class Secret:
    """`name`: in the bundle. `place`: where it belongs, for people."""

    name: str
    place: str
    content: bytes = field(repr=False)


def age() -> str:
    """The path of age. Raises GpuadminError if this machine has none."""
    found = shutil.which("age")
    if found is None:
        raise GpuadminError(
            "this machine has no age, which seals the bundle",
            hint="Debian, Ubuntu: apt install age; Fedora: dnf install age; Arch: pacman -S age; macOS: brew",
        )
    return found


def recipients(settings: Settings, to: str) -> list[str]:
    """Given an admin's name in gpuadmin.yml or the path of a file of public keys, return keys that age takes.

    Raises ConfigError.
    """
    named = next((one for one in settings.admins or () if one.name == to), None)
    if named is not None and named.until is not None and named.until < date.today():
        # guard: nobody seals for an admin whose last day was
        raise ConfigError(f"{to} has been no admin since {named.until}", hint="set another day in gpuadmin.yml: admins")
    where = f"admin {to}" if named is not None else to
    lines = list(named.keys) if named is not None else _lines(to)
    try:
        lines = [line if _OWN.fullmatch(line) else ssh_key(" ".join(line.split())) for line in lines]
    except ValueError as error:  # guard: a bundle is sealed for keys alone
        raise ConfigError(
            f"{where}: holds a line that is not a public key: {error}", hint="one key a line, without options"
        ) from None
    keys = [line for line in lines if line.split(" ")[0] in _TAKEN or _OWN.fullmatch(line)]
    if not keys:
        raise ConfigError(
            f"{where}: holds no key that age can seal for",
            hint="it takes ssh-ed25519, ssh-rsa and age1…; the new admin makes one: ssh-keygen -t ed25519",
        )
    return keys


def _lines(to: str) -> list[str]:
    path = expanded(to)
    try:
        text = decoded(read_limited(path, 1 << 20), path)
    except OSError as error:
        raise ConfigError(
            f"{to}: {error.strerror}", hint="--to names an admin of gpuadmin.yml, or a file of ssh public keys"
        ) from None
    if "PRIVATE KEY" in text or "AGE-SECRET-KEY" in text:  # guard: nobody's private key is asked for
        raise ConfigError(
            f"{to}: is a private key", hint=f"give the public one, {to}.pub; a private key never leaves its owner"
        )
    return [line for raw in text.splitlines() if (line := raw.strip()) and not line.startswith("#")]


def shown(key: str) -> str:
    """A key as people compare it: the fingerprint of an ssh key, or age's own recipient whole."""
    parts = key.split(" ")
    return key if len(parts) == 1 else " ".join((key_fingerprint(parts[1]), *parts[2:]))


def sealed(secrets: Sequence[Secret], keys: Sequence[str], readme: str) -> bytes:
    """The bundle. Raises GpuadminError if age fails."""
    command = [age(), "--encrypt", *(word for key in keys for word in ("--recipient", key))]
    try:
        done = subprocess.run(
            command, input=_packed(secrets, readme), capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise GpuadminError("age did not finish", hint="try it by itself: echo | age --recipient 'KEY'") from None
    # guard: what age did not seal is not written
    if done.returncode != 0 or not done.stdout.startswith(_SEALED):
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()[:1]
        raise GpuadminError(f"age could not seal: {''.join(words)[:200]}", hint="age --version; is it another program?")
    return done.stdout


def _packed(secrets: Sequence[Secret], readme: str) -> bytes:
    """A tar file in memory; whoever opens it has files of their own that nobody else reads."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in [*((one.name, one.content) for one in secrets), (README, readme.encode())]:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o600
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def write(path: Path, bundle: bytes) -> None:
    """Write the bundle into a new file. Raises ConfigError."""
    try:
        write_new(path, bundle)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", hint="name another file: -o FILE") from None

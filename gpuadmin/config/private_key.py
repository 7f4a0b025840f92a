"""The admin's ssh key on this machine: whether ssh can log in with it without asking anybody."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from gpuadmin.errors import ConfigError
from gpuadmin.local_programs import ask_program
from gpuadmin.reading import expanded, read_limited

DEFAULTS = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")  # what ssh tries where it is given none
_LARGEST = 1 << 20  # bytes; a key of 16384 bits has 13,000


@dataclass(frozen=True)
class KeyProblem:
    """Why ssh does not log in with a key. `sure`: not even with the help of an agent that is not running just now."""

    key: str
    message: str
    hint: str
    sure: bool = True


def login_problem(named: str | None) -> KeyProblem | None:
    """Given the path of the private key for logging in, return what is wrong with it, or None.

    A path of None means the keys in ~/.ssh; if one of them is good, or an agent has any, there is no problem.
    """
    if named is not None:
        return key_problem(named)
    there = [f"~/.ssh/{name}" for name in DEFAULTS if _expanded(f"~/.ssh/{name}").exists()]
    problems = [key_problem(key) for key in there]
    first = next(iter(problems), None)
    return None if None in problems or _agent() else first


def public_blob(named: str | None) -> str | None:
    """Given the path of a private key, return the public key's blob; None where it does not tell, or none is named."""
    if named is None:
        return None
    derived = _printed("ssh-keygen", "-y", "-P", "", "-f", str(_expanded(named)))
    try:
        words = derived or read_limited(_expanded(f"{named}.pub"), _LARGEST).decode("utf-8", "replace")
        return words.split()[1]
    except (OSError, ConfigError, IndexError):
        return None


def key_files(named: str | None) -> tuple[Path, ...]:
    """The files that ssh takes a private key from; where no key is named, the usual ones in ~/.ssh."""
    return tuple(_expanded(key) for key in ([f"~/.ssh/{name}" for name in DEFAULTS] if named is None else [named]))


def key_problem(key: str) -> KeyProblem | None:
    """Given the path of a private key's file, return what is wrong with it, or None."""
    path = _expanded(key)
    try:
        raw = read_limited(path, _LARGEST)
        facts = path.stat()
    except FileNotFoundError:
        return KeyProblem(key, "is not a file", "make it (ssh-keygen), or name another")
    except OSError as error:
        why = error.strerror or str(error)
        words = why if "file has to be" in why else f"cannot be read ({why})"
        return KeyProblem(key, words, "name the file of a private key that you can read")
    except ConfigError:
        return KeyProblem(key, "is too large for a key", "name the file of a private key")
    problem = _problem(key, path, raw, facts)
    return None if problem is None or _fingerprint(path) in _agent() else problem


def _problem(key: str, path: Path, raw: bytes, facts: os.stat_result) -> KeyProblem | None:
    if raw.startswith((b"ssh-", b"ecdsa-", b"sk-")):
        return KeyProblem(key, "is a public key", "name the private one, whose name has no .pub")
    if facts.st_uid == os.getuid() and facts.st_mode & 0o077:
        mode = stat.S_IMODE(facts.st_mode)
        return KeyProblem(key, f"is open to others (mode {mode:04o}), so ssh does not use it", f"chmod 600 {key}")
    done = ask_program("ssh-keygen", "-y", "-P", "", "-f", str(path))
    if done is None or done.returncode == 0:
        return None
    if "incorrect passphrase" in done.stderr:
        hint = f"ssh-add {key}; or for gpuadmin a key without a passphrase: what runs by itself has nobody to ask"
        return KeyProblem(key, "has a passphrase, and no ssh-agent has it open", hint, sure=False)
    reason = done.stderr.strip().rpartition(": ")[2] or "ssh-keygen does not say why"
    return KeyProblem(
        key, f"is not a private key that ssh can read ({reason})", "restore it, or make another: ssh-keygen -t ed25519"
    )


def _agent() -> set[str]:
    """The fingerprints of the keys that an ssh-agent has."""
    printed = _printed("ssh-add", "-l") if os.environ.get("SSH_AUTH_SOCK") else ""
    return {line.split()[1] for line in printed.splitlines() if len(line.split()) > 1}


def _fingerprint(path: Path) -> str | None:
    """The fingerprint of a key's file, or of the .pub beside it where the file itself does not tell."""
    words = _printed("ssh-keygen", "-l", "-f", str(path)).split()
    return words[1] if len(words) > 1 else None


def _printed(*command: str) -> str:
    """What a program of OpenSSH's prints; nothing where it fails."""
    done = ask_program(*command)
    return done.stdout if done is not None and done.returncode == 0 else ""


def _expanded(key: str) -> Path:
    try:
        return expanded(key)
    except ConfigError:
        return Path(key)

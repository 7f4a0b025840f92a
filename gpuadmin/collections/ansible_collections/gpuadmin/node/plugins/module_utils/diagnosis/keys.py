"""Keys that sshd would take for a person, and why not the others (sshd(8), AUTHORIZED_KEYS FILE FORMAT; StrictModes).

Of a key only its kind and its fingerprint are reported.
"""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import os
import stat
from typing import Any

from gpuadmin.common.names import KEY_TYPES

from ..bounded import LARGEST_FILE, read_small
from ..errors import NodeError
from .subject import Subject

MOST_KEYS = 50
#: Files that sshd looks at in a home where nothing else is set (sshd_config(5), AuthorizedKeysFile).
USUAL = (".ssh/authorized_keys", ".ssh/authorized_keys2")
#: Texts that people take for a public key: a mark → what the text is.
_OTHERS = {
    "PRIVATE KEY": "is a private key",
    "PuTTY-User-Key-File": "is a private key",
    "-cert-v01@openssh.com": "is a certificate: the key is in the .pub file without -cert",
    "BEGIN SSH2 PUBLIC KEY": "is a key as PuTTYgen saves it: ssh-keygen -i -f FILE prints it in one line",
}
SMALLEST_RSA = 1024  # bits: sshd's RequiredRSASize where nothing else is set
DIRECTORY = (
    os.O_RDONLY
    | os.O_DIRECTORY
    | os.O_NOFOLLOW  # guard: a directory of somebody's is not entered through a link
    | os.O_CLOEXEC
)


def read_site_keys(subject: Subject, name: str) -> dict[str, Any]:
    """The keys that gpuadmin wrote to this host: they need no home."""
    return read_key_file(subject, os.path.join(subject.state, "keys", name))


def read_key_file(subject: Subject, path: str) -> dict[str, Any]:
    """The keys in a file of the host's."""
    try:
        data = read_small(subject.path(path))
    except FileNotFoundError:
        return {"path": path, "problem": "is missing", "keys": []}
    except (OSError, NodeError) as error:
        return {"path": path, "problem": _why(error), "keys": []}
    return {"path": path, "problem": None, "keys": parse_keys(data)}


def read_home_keys(home: str, uid: int, named: str, at: int | None = None, file: str = USUAL[0]) -> dict[str, Any]:
    """The keys in a file of a person's home, as sshd's StrictModes judges them: what leads there is theirs or root's.

    Nothing is followed: who has links there gets no answer but that. ``named``: what the home is called in the answer.
    """
    found: dict[str, Any] = {"path": f"{named}/{file}", "problem": None, "keys": []}
    *above, last = file.split("/")
    opened: list[int] = []
    try:
        directory, path = at, named
        for depth, name in enumerate((home, *above)):
            directory = os.open(name, DIRECTORY, dir_fd=directory)
            opened.append(directory)
            path = f"{path}/{name}" if depth else path
            problem = _strict(os.fstat(directory), uid)
            if problem:
                found["problem"] = f"{path} {problem}"
        facts = os.stat(last, dir_fd=directory, follow_symlinks=False)
        if not found["problem"]:
            found["problem"] = _strict(facts, uid)
        found["keys"] = parse_keys(read_small(last, directory))
    except FileNotFoundError:
        found["problem"] = "is missing"
    except (OSError, NodeError) as error:
        found["problem"] = _why(error)
    finally:
        for one in opened:
            os.close(one)
    return found


def _strict(facts: os.stat_result, uid: int) -> str | None:
    """The reason why sshd does not trust a file or directory of a person's, or None."""
    if facts.st_uid not in (0, uid):
        return f"belongs to uid {facts.st_uid}"
    if facts.st_mode & 0o022:
        return f"has mode {stat.S_IMODE(facts.st_mode):04o}: others may write it"
    return None


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return "is a symbolic link" if error.errno in (errno.ELOOP, errno.ENOTDIR) else str(error.strerror)
    return str(error)


def parse_keys(data: bytes) -> list[dict[str, Any]]:
    """Given the content of a file of keys, return for each line of a key its kind, fingerprint and problem."""
    found = []
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
        text = line.strip()
        if text and not text.startswith("#"):
            found.append({"line": number, **key(text)})
        if len(found) == MOST_KEYS:
            break
    if len(data) >= LARGEST_FILE:
        found.append({"line": 0, "kind": None, "fingerprint": None, "problem": "is not read: the file is too large"})
    return found


def key(line: str) -> dict[str, Any]:
    """The key in a line: ``kind``, ``fingerprint`` (as ssh-keygen -l has it), ``problem`` (None: sshd can take it)."""
    words = line.split()
    at = next((place for place, word in enumerate(words) if word in KEY_TYPES or word == "ssh-dss"), None)
    answer: dict[str, Any] = {"kind": None, "fingerprint": None, "problem": None}
    if at is None:
        kind = next((words for mark, words in _OTHERS.items() if mark in line), "is not a public key that sshd knows")
        return {**answer, "problem": kind}
    answer["kind"] = words[at]
    if at + 1 >= len(words):
        return {**answer, "problem": "has no key after its kind"}
    try:
        blob = base64.b64decode(words[at + 1], validate=True)
    except (binascii.Error, ValueError):
        return {**answer, "problem": "is cut or damaged: its text is not base64"}
    problem = _blob_problem(words[at], blob)
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return {**answer, "fingerprint": f"SHA256:{digest}", "options": at > 0, "problem": problem}


def _blob_problem(kind: str, blob: bytes) -> str | None:
    parts = []
    rest = blob
    while len(rest) >= 4:
        size = int.from_bytes(rest[:4], "big")
        if size > len(rest) - 4:
            break
        parts.append(rest[4 : 4 + size])
        rest = rest[4 + size :]
    if rest or not parts:
        return "is cut or damaged: it ends in the middle"
    if parts[0] != kind.encode():
        return "is damaged: it is of another kind than its line says"
    if kind == "ssh-dss":
        return "is a DSA key, which sshd does not take any more"
    if kind == "ssh-rsa" and len(parts) > 2 and len(parts[2].lstrip(b"\0")) * 8 < SMALLEST_RSA:
        return f"is an RSA key of less than {SMALLEST_RSA} bits"
    return None

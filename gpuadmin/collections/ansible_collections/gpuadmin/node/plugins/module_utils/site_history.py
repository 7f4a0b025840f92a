"""A site's lock and records, on its storage host, for admins at several machines: each line of JSON has an answer.

The kernel holds the lock while this process lives, and that is as long as the ssh of whoever runs gpuadmin. It runs as
the account that they log in as, below its home; what a record says is text, and nothing of it is run.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import sys
from typing import Any, Optional

from .bounded import read_small
from .errors import NodeError, in_words
from .files import open_lock, write_atomic
from .run import run_command

LARGEST = 64 * 1024 * 1024  # bytes of a request
LARGEST_FILE = 16 * 1024 * 1024  # bytes of one file of a record
IDENTITY = re.compile(r"[0-9T]{15}-[a-z-]{1,60}-[0-9a-f]{4}")
NAMES = ("run.json", "log.txt", "result.json", "dismissed.json")
_HEARD = re.compile(r"\blastrcv:([0-9]+)")


class SiteHistory:
    """What one ssh asks for. ``place``: the directory; ``connection``: SSH_CONNECTION of that ssh."""

    def __init__(self, place: str, connection: str = "") -> None:
        self._runs, self._lock = os.path.join(place, "runs"), os.path.join(place, "lock")
        self._connection = connection
        self._held: Optional[int] = None
        os.makedirs(self._runs, mode=0o700, exist_ok=True)

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Given a request, return its answer. Raises LookupError or ValueError for what is none; OSError, NodeError."""
        does = {"lock": self._take, "name": self._name, "list": self._list, "get": self._get, "put": self._put}
        return does[asked["do"]](asked)

    def _take(self, asked: dict[str, Any]) -> dict[str, Any]:
        handle = open_lock(self._lock)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # guard: one machine at a time changes a site
        except BlockingIOError:
            os.close(handle)
            holder = _holder(self._lock)
            return {"held": False, "holder": holder, "silent": silence(str(holder.get("connection", "")))}
        self._held, last = handle, _holder(self._lock)
        self._name({"holder": {**asked["holder"], "commit": last.get("commit")}})
        return {"held": True, "last": last}

    def _name(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Write who has the lock. It stays as who had it last; `ended` says that they let go of it."""
        if self._held is None:  # guard: only who holds the lock says who has it
            raise ValueError("the lock is not held")
        raw = json.dumps({**asked["holder"], "pid": os.getpid(), "connection": self._connection}).encode()
        os.ftruncate(self._held, 0)
        os.pwrite(self._held, raw, 0)
        return {}

    def _list(self, asked: dict[str, Any]) -> dict[str, Any]:
        newest = self._newest()[: int(asked["newest"])]
        return {"records": {one: sorted({*os.listdir(os.path.join(self._runs, one))} & {*NAMES}) for one in newest}}

    def _newest(self) -> list[str]:
        return sorted(filter(IDENTITY.fullmatch, os.listdir(self._runs)), reverse=True)

    def _get(self, asked: dict[str, Any]) -> dict[str, Any]:
        where = self._record(asked)
        names = [name for name in NAMES if os.path.lexists(os.path.join(where, name))]
        raw = {name: read_small(os.path.join(where, name), most=LARGEST_FILE) for name in names}
        return {"files": {name: content.decode("utf-8", "replace") for name, content in raw.items()}}

    def _put(self, asked: dict[str, Any]) -> dict[str, Any]:
        where = self._record(asked)
        os.makedirs(where, mode=0o700, exist_ok=True)
        for name in NAMES:  # guard: a record has no other files than these -> asked["files"]
            if name in asked["files"]:
                content = str(asked["files"][name]).encode("utf-8", "replace")
                write_atomic(os.path.join(where, name), content, mode=0o600)
        for old in self._newest()[max(1, int(asked["keep"])) :]:
            shutil.rmtree(os.path.join(self._runs, old), ignore_errors=True)
        return {}

    def _record(self, asked: dict[str, Any]) -> str:
        if not IDENTITY.fullmatch(asked["id"]):  # guard: what a machine calls a record is no path
            raise ValueError("no id of a record")
        return os.path.join(self._runs, asked["id"])


def silence(connection: str) -> Optional[float]:
    """Given somebody's SSH_CONNECTION, return for how many seconds nothing came by it; None if that is not known.

    A live ssh says every quarter of a minute that it is there, also while its run waits.
    """
    words = connection.split()
    if len(words) != 4 or not all(re.fullmatch(r"[0-9a-fA-F.:]+", word) for word in words):
        return None
    there, port, here, own = (f"[{word}]" if ":" in word else word for word in words)
    try:
        done = run_command(["ss", "-tniHO", "src", f"{here}:{own}", "dst", f"{there}:{port}"], seconds=10)
    except (OSError, NodeError):
        return None
    found = _HEARD.search(done.stdout)
    return int(found.group(1)) / 1000 if found else None


def _holder(path: str) -> dict[str, Any]:
    try:
        value = json.loads(read_small(path))
    except (OSError, ValueError, RecursionError, NodeError):
        return {}
    return value if isinstance(value, dict) else {}


def main() -> int:
    """Answer until whoever asks is gone."""
    os.umask(0o077)
    place = os.path.expanduser("~/.local/state/gpuadmin-site")
    history = SiteHistory(place, os.environ.get("SSH_CONNECTION", ""))
    while (line := sys.stdin.buffer.readline(LARGEST + 1)).endswith(b"\n"):  # guard: a request has an end -> True
        try:
            answer = history.answer(json.loads(line))
        except OSError as error:
            answer = {"problem": in_words(error)}
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError, NodeError) as wrong:
            answer = {"problem": f"{type(wrong).__name__}: {wrong}"[:300]}
        print(json.dumps({"gpuadmin": answer}), flush=True)
    return 0

"""A node's side: what the key of the storage host may ask for while homes are moved, by its forced command.

It takes names of people, and gives the homes that were decided on, and nothing else of the node. Nothing is changed.
"""

from __future__ import annotations

import gzip
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.backups import home_manifest, home_reader, received, sending
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.applying import take_manifest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.copy_stream import Bounds
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.home_manifest import Line, Total, Writer
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.wire import Link, Pulse
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import ENTRIES, SECONDS, unlimited
from ansible_collections.gpuadmin.node.plugins.module_utils.documents import parse
from ansible_collections.gpuadmin.node.plugins.module_utils.each import MEMORY, bound_memory
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.files import (
    flocked,
    read_bytes,
    sync_directory,
    sync_filesystem,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import RUN, STATE

from . import place, record
from .live import Live
from .record import Part

ALLOWED = "allowed.json"
#: Seconds until what a run that was cut off has left here ends: it finds out when it sends the next piece.
LEFT_SECONDS = 30.0
TICK = 10**9  # nanoseconds; more than the clock that files have their times from lags behind
UNKNOWN = "not understood: the storage host may ask for homes that are being moved"
_TAKES = Bounds(reserve=0.0)  # a manifest is small, and a full disk is a reason to move homes


def allowed(state: str) -> tuple[str, Mapping[str, Part]]:
    """Where homes are, and whose may be asked for."""
    data = read_bytes(os.path.join(record.directory(state), ALLOWED))
    if data is None:
        raise NodeError("no home is being moved here")
    try:
        raw: Mapping[str, Any] = json.loads(data)
        people = [parse(Part, one, "a home") for one in raw["homes"]]
        return str(raw["path"]), {one.name: one for one in people}
    except (KeyError, TypeError) as error:
        raise NodeError(f"{ALLOWED} cannot be read: {error}") from None


def manifest(state: str, name: str) -> str:
    """The home as it was when it was compared."""
    return os.path.join(record.directory(state), f"{name}.gz")


def seen(state: str, name: str) -> str:
    """What was read of the home while its person worked."""
    return os.path.join(record.directory(state), f"{name}.seen.gz")


def written(path: str, fill: Callable[[Writer], Any]) -> Any:
    """Write a manifest: whole, or not at all."""
    part = f"{path}.part"
    with open(part, "wb", opener=lambda one, flags: os.open(one, flags | os.O_NOFOLLOW, 0o600)) as raw:
        with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=1, mtime=0) as stream:
            result = fill(Writer(stream.write))
        raw.flush()
        os.fsync(raw.fileno())
    os.rename(part, path)
    sync_directory(os.path.dirname(path))
    return result


def now(top: int, before: str, budget: Any, path: str) -> Total:
    """The manifest of an open home as it is now. What has not changed since ``before`` is not read again.

    Nor must what is younger than the sync be known by its ctime afterwards: it is written down without (``_whole``).
    """
    begun = time.time_ns() - TICK
    sync_filesystem(f"/proc/{os.getpid()}/fd/{top}")

    def found() -> Iterator[Line]:
        known = home_manifest.read(before, unlimited()) if os.path.exists(before) else None
        return home_reader.lines(top, earlier=known, budget=budget)

    def fill(write: Writer) -> Total:
        # guard: what may change without a new ctime after it was compared is read again -> write
        return home_manifest.total(found(), lambda line: write(line if line.ctime < begun else replace(line, ctime=0)))

    total: Total = written(path, fill)
    return total


def _whole(top: int, state: str, name: str, link: Link, budget: Pulse) -> None:
    """Send a home while its person works."""
    # what is written to a page that is dirty already leaves ctime as it is, until the page was on the disk
    begun = time.time_ns() - TICK
    sync_filesystem(f"/proc/{os.getpid()}/fd/{top}")

    def fill(write: Writer) -> None:
        def note(line: Line) -> None:
            if line.ctime < begun:  # guard: what may change without a new ctime is read again -> True
                write(line)

        Live(link, budget, note).all(top)

    written(seen(state, name), fill)


def _difference(top: int, state: str, name: str, link: Link, budget: Pulse) -> None:
    """Take the manifest of what the storage host has, and send what has to change there."""
    have = os.path.join(record.directory(state), f"{name}.have.gz")
    handle = os.open(have, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        take_manifest(link, handle, received.MANIFEST, _TAKES)
        new = manifest(state, name)
        now(top, seen(state, name), budget, new)
        sending.put_manifest(new, link)
        sending.changes(
            top, lambda: home_manifest.read(new, budget.again()), lambda: home_manifest.read(have, budget.again()),
            link, budget,
        )  # fmt: skip
    finally:
        os.close(handle)
        os.unlink(have)


def serve(state: str, request: str, stdin: int = 0, stdout: int = 1, run: str = RUN) -> None:
    """Do what was asked for in SSH_ORIGINAL_COMMAND. Raises NodeError, OSError, ValueError."""
    path, people = allowed(state)
    verb, *rest = shlex.split(request) or [""]
    wanted = people.get(rest[0]) if len(rest) == 1 else None
    # guard: only a home that is being moved is given away
    if wanted is None or verb not in ("home", "difference"):
        raise NodeError(UNKNOWN)
    link = Link(stdin, stdout)
    budget = Pulse(link, 4 * SECONDS, 3 * ENTRIES)
    lock = os.path.join(run, f"move-homes.{wanted.name}.serving.lock")
    with (
        flocked(lock, LEFT_SECONDS),  # what a run that was cut off has left here writes the same notes
        place.opened(path) as homes,
        place.home(homes, wanted.name, wanted.uid, wanted.inode, wanted.device) as top,
    ):
        (_whole if verb == "home" else _difference)(top, state, wanted.name, link, budget)
    link.flush()


def main(state: str = STATE) -> int:
    """What the forced command runs."""
    bound_memory(MEMORY)
    try:
        serve(state, os.environ.get("SSH_ORIGINAL_COMMAND", ""))
    except (NodeError, OSError, ValueError) as error:
        print(f"Error: {in_words(error)}", file=sys.stderr)
        return 1
    return 0

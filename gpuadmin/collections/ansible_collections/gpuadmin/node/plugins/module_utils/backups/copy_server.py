"""The other end of a second copy, on the host that keeps it: what an ssh key with a forced command may ask for.

It takes a name and a stream, never a path. Whoever holds the key can have copies back and add some, and can neither
change nor delete one, nor bring this host to delete one before its time: what came when is written down here, by this
host's clock, and the timer's sets are let go by that.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import timedelta

from .. import btrfs
from ..errors import NodeError, in_words
from ..fields import UUID, home_owner
from ..files import flocked, write_atomic
from . import backup_set, making, pruning, received, receiving
from .backup_set import Backup
from .pour import BOUNDS, Bounds, pour
from .received import PART, parts
from .retention import moment, view
from .transfer import send_command

SEND_SECONDS = 3 * 86400  # for a snapshot that is read back; what it reads cannot be deleted meanwhile
PER_DAY = 48  # sets that are taken in 24 hours: a timer of every hour, and as many again
LOCK = ".lock"
READ = ("show", "send", "manifest-of")


def _show(found: Backup) -> str:
    """What a set says of itself, and by which uuid each of its snapshots was sent."""
    uuids = {}
    for part in parts(found):
        volume = btrfs.subvolume(os.path.join(found.path, part))
        if volume is None:
            raise NodeError(f"{part} of {found.name} is not there")
        uuids[part] = volume.received_uuid or volume.uuid
    with open(os.path.join(found.path, "backup.json"), encoding="utf-8") as stream:
        return json.dumps({"backup": stream.read(), "uuids": uuids})


def _give(directory: str, found: Backup, verb: str, rest: Sequence[str], stdout: int) -> None:
    """Stream a part of a set, or a manifest of it."""
    if verb == "manifest-of" and len(rest) == 1 and rest[0] in found.homes and home_owner(rest[0]):
        with open(found.manifest(rest[0]), "rb") as stream, os.fdopen(os.dup(stdout), "wb") as target:
            shutil.copyfileobj(stream, target)
    elif verb == "send" and len(rest) in (1, 2) and rest[0] in parts(found):
        parent = backup_set.load(directory, rest[1]) if len(rest) == 2 else None
        before = None if parent is None else os.path.join(parent.path, rest[0])
        command = send_command(os.path.join(found.path, rest[0]), before)
        try:
            result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                                    check=False, timeout=SEND_SECONDS)  # fmt: skip
        except subprocess.TimeoutExpired:
            raise NodeError(f"{rest[0]} of {found.name} was not read in {SEND_SECONDS} seconds") from None
        if result.returncode != 0:
            raise NodeError(result.stderr.decode(errors="replace").strip()[-400:])
    else:
        raise NodeError("not understood")


def serve(
    directory: str,
    request: str,
    stdin: int = 0,
    stdout: int = 1,
    *,
    ordinary: int | None = None,
    bounds: Bounds = BOUNDS,
    wait: float = 120.0,
) -> str:
    """Do what was asked for in SSH_ORIGINAL_COMMAND; return what to print.

    ``ordinary``: how many of the timer's sets stay here, which the role says and not who asks; None: all.
    ``wait``: seconds for another connection to end.
    """
    arguments = shlex.split(request)
    verb, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    receiving.make_own(directory)
    if verb == "list" and not rest:
        return "\n".join(one.name for one in backup_set.complete(directory))
    if not rest or not backup_set.NAME.match(rest[0]):
        raise NodeError("not understood")
    name = rest[0]
    if verb in READ:
        found = _complete(directory, name)
        if verb == "show" and len(rest) == 1:
            return _show(found)
        _give(directory, found, verb, rest[1:], stdout)
        return ""
    with flocked(os.path.join(directory, LOCK), wait):
        if verb == "verify":
            return _verify(directory, _complete(directory, name), rest[1:], ordinary)
        _take(directory, name, verb, rest[1:], stdin, bounds)
        return ""


def _complete(directory: str, name: str) -> Backup:
    found = backup_set.load(directory, name)
    if found is None:
        raise NodeError(f"there is no complete {name} here")
    return found


def _verify(directory: str, found: Backup, homes: Sequence[str], ordinary: int | None) -> str:
    """Read homes where they lie now; then let the oldest of the timer's sets go, if this was one of those."""
    if any(one not in found.homes for one in homes):
        raise NodeError(f"{found.name} has not all of these homes")
    _stamp_older(directory)
    making.verify(found, homes, again=True)
    if ordinary is not None and view(found.as_dict()).ordinary:
        pruning.prune(directory, pruning.FOR_EVER, ordinary)
    return backup_set.now()


def _stamp_older(directory: str) -> None:
    """Sets that came before this host wrote down when: they came now, as far as anybody can know."""
    for one in backup_set.complete(directory):
        if received.arrived(one.path) is None:
            write_atomic(os.path.join(one.path, received.STAMP), received.stamp(), mode=0o600)


def _take(directory: str, name: str, verb: str, rest: Sequence[str], stdin: int, bounds: Bounds) -> None:
    """A step of taking a new set: begin, receive for each snapshot, manifest for each home, commit."""
    if backup_set.load(directory, name) is not None:
        raise NodeError(f"{name} is complete here")
    if verb == "begin" and not rest:
        _refuse_flood(directory)
        receiving.begin(directory, name)
    elif verb == "receive" and len(rest) == 2 and PART.match(rest[0]) and UUID.match(rest[1]):
        receiving.receive(directory, name, rest[0], rest[1], stdin, bounds)
    elif verb == "manifest" and len(rest) == 1 and home_owner(rest[0]):
        receiving.take_manifest(directory, name, rest[0], stdin, bounds)
    elif verb == "commit" and not rest:
        _commit(directory, name, stdin, bounds)
    else:
        raise NodeError("not understood")


def _refuse_flood(directory: str) -> None:
    since = moment(backup_set.now()) - timedelta(days=1)
    times = [received.arrived(one.path) for one in backup_set.complete(directory)]
    if sum(when is not None and when > since for when in times) >= PER_DAY:
        raise NodeError(f"{PER_DAY} sets came in the last 24 hours: no more is taken")


def _commit(directory: str, name: str, stdin: int, bounds: Bounds) -> None:
    with tempfile.TemporaryFile() as document:
        pour(stdin, document.fileno(), directory, most=received.DOCUMENT, bounds=bounds)
        document.seek(0)
        claimed = received.parse(directory, name, document.read())
    receiving.settle(directory, claimed, stamped=True)


def main(directory: str, ordinary: int | None = None) -> int:
    """What the forced command runs."""
    try:
        answer = serve(directory, os.environ.get("SSH_ORIGINAL_COMMAND", ""), ordinary=ordinary)
        if answer:  # after a stream nothing may follow
            print(answer)
    except (NodeError, OSError, ValueError) as error:
        print(f"Error: {in_words(error)}", file=sys.stderr)
        return 1
    return 0

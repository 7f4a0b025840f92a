"""The other end of a second copy, on the host that keeps it: what an ssh key with a forced command may ask for.

It takes a name and a stream, never a path. The storage host can have a copy back, and can neither change nor delete
one: this host itself lets the oldest of the timer's go when it has got a new one.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence

from . import backup_set, backups, btrfs, pruning, retention
from .backup_set import Backup
from .errors import NodeError
from .fields import home_owner
from .files import make_directory, sync_directory, sync_filesystem
from .transfer import PART, UUID, begin, parts, receive_part, send_command


def _show(found: Backup) -> str:
    """A set in its own words, and by which uuid each of its snapshots was sent."""
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
        result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, check=False)
        if result.returncode != 0:
            raise NodeError(result.stderr.decode(errors="replace").strip()[-400:])
    else:
        raise NodeError("not understood")


def serve(directory: str, request: str, stdin: int = 0, stdout: int = 1, *, ordinary: int | None = None) -> str:
    """Do what was asked for in SSH_ORIGINAL_COMMAND; return what to print.

    ``ordinary``: how many of the timer's sets stay here, which the role says and not who asks; None: all.
    """
    words = shlex.split(request)
    verb, rest = (words[0], words[1:]) if words else ("", [])
    backup_set.check_directory(directory)
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    make_directory(directory, 0o700, os.geteuid(), os.getegid())
    if verb == "list" and not rest:
        return "\n".join(one.name for one in backup_set.complete(directory))
    if not rest or not backup_set.NAME.match(rest[0]):
        raise NodeError("not understood")
    name, path = rest[0], os.path.join(directory, rest[0])
    if verb in ("verify", "show", "send", "manifest-of"):
        found = backup_set.load(directory, name)
        if found is None:
            raise NodeError(f"there is no complete {name} here")
        if verb == "show" and len(rest) == 1:
            return _show(found)
        if verb != "verify":
            _give(directory, found, verb, rest[1:], stdout)
            return ""
        if any(one not in found.homes for one in rest[1:]):
            raise NodeError(f"{name} has not all of these homes")
        backups.verify(found, rest[1:], again=True)
        if ordinary is not None and retention.view(found.as_dict()).ordinary:
            pruning.prune(directory, pruning.FOR_EVER, ordinary)
        return backup_set.now()
    if backup_set.load(directory, name) is not None:
        raise NodeError(f"{name} is complete here")
    if verb == "begin" and len(rest) == 1:
        begin(directory, name)
    elif verb == "receive" and len(rest) == 3 and PART.match(rest[1]) and UUID.match(rest[2]):
        receive_part(path, rest[1], rest[2], stdin)
    elif verb == "manifest" and len(rest) == 2 and home_owner(rest[1]):
        _write(f"{path}/manifest/{rest[1]}.gz", stdin)
    elif verb == "commit" and len(rest) == 1:
        _commit(path, stdin)
        if backup_set.load(directory, name) is None:
            raise NodeError("the set is not complete")
        sync_directory(directory)
    else:
        raise NodeError("not understood")
    return ""


def _write(path: str, stdin: int) -> None:
    with os.fdopen(os.dup(stdin), "rb") as source, open(path, "wb") as target:
        shutil.copyfileobj(source, target)


def _commit(path: str, stdin: int) -> None:
    part = os.path.join(path, "backup.json.part")
    _write(part, stdin)
    sync_filesystem(path)
    os.rename(part, os.path.join(path, "backup.json"))
    sync_directory(path)


def main(directory: str, ordinary: int | None = None) -> int:
    """What the forced command runs."""
    try:
        said = serve(directory, os.environ.get("SSH_ORIGINAL_COMMAND", ""), ordinary=ordinary)
        if said:  # after a stream nothing may follow
            print(said)
    except (NodeError, OSError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0

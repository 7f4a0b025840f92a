"""A second copy of a backup on another host: btrfs send, through ssh, into btrfs receive, verified where it arrives.

The storage host calls; copy_server.py answers on the other host. A copy counts when its homes were read there and held
against the manifests.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace

from . import backup_set, btrfs
from .backup_set import Backup
from .errors import NodeError
from .fields import home_owner
from .files import make_directory, sync_directory, sync_filesystem

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z\Z")
PART = re.compile(r"(homes|nested/[0-9]{1,6})\Z")


@dataclass(frozen=True)
class Remote:
    """The other host, and how it is called. ``command``: all of ssh but what is to be done there."""

    name: str
    command: tuple[str, ...]


def ssh_command(address: str, key: str, known_hosts: str, port: int = 22) -> tuple[str, ...]:
    """ssh as root with one key and one known host, and nothing of anybody's configuration."""
    return (
        "ssh", "-F", "none", "-T", "-p", str(port), "-i", key, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
        "-o", f"UserKnownHostsFile={known_hosts}", "-o", "GlobalKnownHostsFile=none", "-o", "StrictHostKeyChecking=yes",
        "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=8", f"root@{address}",
    )  # fmt: skip


def _call(remote: Remote, *words: str, data: bytes | None = None) -> str:
    command = (*remote.command, shlex.join(words))
    result = subprocess.run(command, input=data, capture_output=True, check=False)
    if result.returncode != 0:
        raise NodeError(f"{remote.name}: {words[0]}: {result.stderr.decode(errors='replace').strip()[-400:]}")
    return result.stdout.decode(errors="replace")


def parts(backup: Backup) -> list[str]:
    """The snapshots of a set, by their paths in it."""
    nested = {where for home in backup.homes.values() for where in home.nested.values()}
    return ["homes", *sorted(nested)]


def send(backup: Backup, remote: Remote, earlier: Sequence[Backup]) -> str:
    """Send a set, as far as it is not there, and have it verified there. Returns when that was done.

    ``earlier``: sets here, newest first; the first of them that is also there is the parent of what is sent.
    """
    there = set(_call(remote, "list").split())
    if backup.name not in there:
        parent = next((one for one in earlier if one.name in there and one.name != backup.name), None)
        _call(remote, "begin", backup.name)
        for part in parts(backup):
            _send_part(backup, part, remote, parent if part == "homes" else None)
        for name in sorted(backup.homes):
            with open(backup.manifest(name), "rb") as stream:
                _call(remote, "manifest", backup.name, name, data=stream.read())
        with open(os.path.join(backup.path, "backup.json"), "rb") as stream:
            _call(remote, "commit", backup.name, data=stream.read())
    when = _call(remote, "verify", backup.name, *sorted(name for name in backup.homes if backup.homes[name].verified))
    if not TIME.match(when.strip()):
        raise NodeError(f"{remote.name} did not say that it verified {backup.name}")
    return when.strip()


def send_command(path: str, parent: str | None) -> tuple[str, ...]:
    return ("btrfs", "send", "--quiet", *(("-p", parent) if parent else ()), path)


def _send_part(backup: Backup, part: str, remote: Remote, parent: Backup | None) -> None:
    """One snapshot through the pipe; both ends must end well, and the copy must name what it is a copy of."""
    path = os.path.join(backup.path, part)
    own = btrfs.subvolume(path)
    assert own is not None
    before = os.path.join(parent.path, part) if parent is not None else None
    receive = (*remote.command, shlex.join(("receive", backup.name, part, own.received_uuid or own.uuid)))
    with subprocess.Popen(send_command(path, before), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as sender:
        result = subprocess.run(receive, stdin=sender.stdout, capture_output=True, check=False)
        assert sender.stdout is not None
        assert sender.stderr is not None
        sender.stdout.close()
        said = sender.stderr.read().decode(errors="replace").strip()
        status = sender.wait()
    if status != 0 or result.returncode != 0:
        words = (result.stderr.decode(errors="replace").strip() + " " + said).strip()
        raise NodeError(f"{remote.name}: {part} of {backup.name} was not copied (send {status}): {words[-400:]}")


def names(remote: Remote) -> list[str]:
    """The complete sets on the other host, oldest first."""
    return sorted(name for name in _call(remote, "list").split() if backup_set.NAME.match(name))


def _told(name: str, directory: str, remote: Remote) -> tuple[Backup, dict[str, str]]:
    """A set of the other host in that host's words, and the uuid that each part is sent by. Raises NodeError."""
    try:
        said = json.loads(_call(remote, "show", name))
        found = backup_set.parse(directory, name, said["backup"])
        uuids = {str(part): str(uuid) for part, uuid in said["uuids"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NodeError(f"{remote.name}: {name} cannot be read: {error}") from error
    inside = os.path.normpath(found.inside)
    if (
        not all(home_owner(one) for one in found.homes)
        or not all(PART.match(part) for part in parts(found))
        or any(not UUID.match(uuids.get(part, "")) for part in parts(found))
        or inside.startswith(("/", "../"))
        or inside == ".."
    ):
        raise NodeError(f"{remote.name}: what {name} says of itself is refused")
    return found, uuids


def _unverified(found: Backup) -> Backup:
    """What the other host verified counts there; here its homes are read again."""
    return replace(found, homes={one: replace(home, verified=None) for one, home in found.homes.items()})


def describe(name: str, directory: str, remote: Remote) -> Backup:
    """Given a set of the other host, return it as it would lie in ``directory`` here, with no home verified.

    Raises NodeError also where what the other host says is no set of names.
    """
    return _unverified(_told(name, directory, remote)[0])


def newest(user: str, directory: str, remote: Remote) -> Backup | None:
    """The newest set of the other host that a person's home was verified in there, else the newest that has it."""
    found = backup_set.newest((_told(one, directory, remote)[0] for one in reversed(names(remote))), user)
    return None if found is None else _unverified(found)


def fetch(name: str, directory: str, remote: Remote) -> Backup:
    """Bring a set back from the other host, only the difference where one is here that is there, too.

    The caller holds the lock. Raises NodeError, and then nothing here calls itself a backup.
    """
    found = backup_set.load(directory, name)
    if found is not None:
        return found
    told, uuids = _told(name, directory, remote)
    found = _unverified(told)
    there = set(names(remote))
    parent = next((one for one in reversed(backup_set.complete(directory)) if one.name in there), None)
    try:
        begin(directory, name)
        for part in parts(found):
            _fetch_part(found, part, uuids[part], remote, parent if part == "homes" else None)
        for one in sorted(found.homes):
            with open(found.manifest(one), "wb") as target:
                _stream(remote, ("manifest-of", name, one), target.fileno())
        sync_filesystem(found.path)
        backup_set.store(found)
        sync_directory(directory)
        return found
    except BaseException:
        backup_set.remove(directory, name)
        raise


def _fetch_part(found: Backup, part: str, uuid: str, remote: Remote, parent: Backup | None) -> None:
    words = ("send", found.name, part, *((parent.name,) if parent else ()))
    command = (*remote.command, shlex.join(words))
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as sender:
        assert sender.stdout is not None
        assert sender.stderr is not None
        try:
            receive_part(found.path, part, uuid, sender.stdout.fileno())
        except NodeError as error:
            sender.kill()
            said = sender.stderr.read().decode(errors="replace").strip()
            raise NodeError(f"{part} of {found.name} did not come from {remote.name}: {error} {said}"[:400]) from error
        sender.stdout.close()
        said = sender.stderr.read().decode(errors="replace").strip()
        if sender.wait() != 0:
            raise NodeError(f"{remote.name}: {part} of {found.name} did not come whole: {said[-400:]}")


def _stream(remote: Remote, words: Sequence[str], target: int) -> None:
    command = (*remote.command, shlex.join(words))
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=target, stderr=subprocess.PIPE, check=False)
    if result.returncode != 0:
        raise NodeError(f"{remote.name}: {words[0]}: {result.stderr.decode(errors='replace').strip()[-400:]}")


def begin(directory: str, name: str) -> None:
    """An empty place for a set; what an interruption left of others goes."""
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    make_directory(directory, 0o700, os.geteuid(), os.getegid())
    for one in backup_set.names(directory):
        if backup_set.load(directory, one) is None:
            backup_set.remove(directory, one)
    path = os.path.join(directory, name)
    for place in (path, f"{path}/nested", f"{path}/manifest"):
        make_directory(place, 0o700, os.geteuid(), os.getegid())


def receive_part(path: str, part: str, expected: str, stdin: int) -> None:
    """A read-only subvolume cannot be moved to another directory, so it is received where it stays."""
    target = os.path.join(path, os.path.dirname(part))
    result = subprocess.run(("btrfs", "receive", "--quiet", target), stdin=stdin, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, check=False)  # fmt: skip
    if result.returncode != 0:
        raise NodeError(result.stderr.decode(errors="replace").strip()[-400:])
    found = btrfs.subvolume(os.path.join(path, part))
    if found is None or found.received_uuid != expected or not found.read_only:
        raise NodeError(f"{part}: what arrived is not what was sent")

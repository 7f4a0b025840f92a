"""A second copy of a backup on another host: btrfs send, through ssh, into btrfs receive, verified where it arrives.

The storage host calls; copy_server.py answers on the other host. A copy counts when its homes were read there and held
against the manifests.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO

from .. import btrfs
from ..errors import NodeError
from ..fields import UUID
from . import backup_set, receiving
from .backup_set import Backup
from .received import DOCUMENT, TIME, parse, parts

ANSWER = 2 * DOCUMENT  # bytes of the longest answer: a backup.json as a string of JSON
SECONDS = {"verify": 3 * 86400.0, "commit": 86400.0, "manifest": 86400.0}  # how long the other host may take


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


def _call(remote: Remote, *arguments: str, data: bytes | None = None) -> str:
    """What the other host answers; neither the answer nor the time that it takes is without an end."""
    command = (*remote.command, shlex.join(arguments))
    seconds = SECONDS.get(arguments[0], 600.0)
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
        given.write(data or b"")
        given.seek(0)
        with subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, stderr=errors) as called:
            timer = threading.Timer(seconds, called.kill)
            timer.start()
            try:
                assert called.stdout is not None
                answer = called.stdout.read(ANSWER + 1)
                if len(answer) > ANSWER:
                    raise NodeError(f"{remote.name}: {arguments[0]}: the answer is longer than {ANSWER} bytes")
                called.wait()
            finally:
                timer.cancel()
                called.kill()
        if called.returncode != 0:
            raise NodeError(f"{remote.name}: {arguments[0]}: {_end_of(errors) or f'ended with {called.returncode}'}")
    return answer.decode(errors="replace")


def _end_of(errors: IO[bytes]) -> str:
    """The end of what a program wrote to its standard error."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - 4000))
    return errors.read(4000).decode(errors="replace").strip()[-400:]


def send(backup: Backup, remote: Remote, earlier: Sequence[Backup]) -> str:
    """Send a set, as far as it is not there, and have it verified there. Returns when that was done.

    ``earlier``: sets here, newest first; the first of them that is also there is the parent of what is sent.
    """
    there = set(_call(remote, "list").split())
    if backup.name not in there:
        parent = next((one for one in earlier if one.name in there and one.name != backup.name), None)
        _call(remote, "begin", backup.name)
        try:
            _send_part(backup, "homes", remote, parent)
        except NodeError:
            # Linux before 5.18 shares no extents between two mounts, and there the earlier set is on another one
            if parent is None:
                raise
            _call(remote, "begin", backup.name)
            _send_part(backup, "homes", remote, None)
        for part in parts(backup)[1:]:
            _send_part(backup, part, remote, None)
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
        complaint = sender.stderr.read().decode(errors="replace").strip()
        status = sender.wait()
    if status != 0 or result.returncode != 0:
        output = (result.stderr.decode(errors="replace").strip() + " " + complaint).strip()
        raise NodeError(f"{remote.name}: {part} of {backup.name} was not copied (send {status}): {output[-400:]}")


def names(remote: Remote) -> list[str]:
    """The complete sets on the other host, oldest first."""
    return sorted(name for name in _call(remote, "list").split() if backup_set.NAME.match(name))


def _claimed(name: str, directory: str, remote: Remote) -> tuple[Backup, dict[str, str]]:
    """A set of the other host as that host describes it, and the uuid that each part is sent by. Raises NodeError."""
    try:
        answer = json.loads(_call(remote, "show", name))
        found = parse(directory, name, answer["backup"])
        uuids = {str(part): str(uuid) for part, uuid in answer["uuids"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NodeError(f"{remote.name}: {name} cannot be read: {error}") from error
    except NodeError as error:
        raise NodeError(f"{remote.name}: {error}") from error
    if any(not UUID.match(uuids.get(part, "")) for part in parts(found)):
        raise NodeError(f"{remote.name}: what {name} says of its snapshots is refused")
    return found, uuids


def _unverified(found: Backup) -> Backup:
    """What the other host verified counts there; here its homes are read again."""
    return replace(found, homes={one: replace(home, verified=None) for one, home in found.homes.items()})


def describe(name: str, directory: str, remote: Remote) -> Backup:
    """Given a set of the other host, return it as it would be in ``directory`` here, with no home verified.

    Raises NodeError also where what the other host says is no set of names.
    """
    return _unverified(_claimed(name, directory, remote)[0])


def newest(user: str, directory: str, remote: Remote) -> Backup | None:
    """The newest set of the other host that a person's home was verified in there, else the newest that has it."""
    found = backup_set.newest((_claimed(one, directory, remote)[0] for one in reversed(names(remote))), user)
    return None if found is None else _unverified(found)


def fetch(name: str, directory: str, remote: Remote) -> Backup:
    """Bring a set back from the other host, only the difference where one is here that is there, too.

    The caller holds the lock. Raises NodeError, and then nothing here calls itself a backup.
    """
    found = backup_set.load(directory, name)
    if found is not None:
        return found
    claimed, uuids = _claimed(name, directory, remote)
    found = _unverified(claimed)
    there = set(names(remote))
    parent = next((one for one in reversed(backup_set.complete(directory)) if one.name in there), None)
    try:
        receiving.begin(directory, name)
        for part in parts(found):
            _fetch_part(found, directory, part, uuids[part], remote, parent if part == "homes" else None)
        for one in sorted(found.homes):
            _fetch_manifest(found, directory, one, remote)
        return receiving.settle(directory, found, stamped=False)
    except BaseException:
        receiving.clear(directory)
        raise


def _fetch_part(found: Backup, directory: str, part: str, uuid: str, remote: Remote, parent: Backup | None) -> None:
    arguments = ("send", found.name, part, *((parent.name,) if parent else ()))
    with _asked(remote, arguments, f"{part} of {found.name}") as stream:
        receiving.receive(directory, found.name, part, uuid, stream)


def _fetch_manifest(found: Backup, directory: str, name: str, remote: Remote) -> None:
    with _asked(remote, ("manifest-of", found.name, name), f"the manifest of {name} in {found.name}") as stream:
        receiving.take_manifest(directory, found.name, name, stream)


@contextmanager
def _asked(remote: Remote, arguments: Sequence[str], what: str) -> Iterator[int]:
    """What the other host streams, as a descriptor; whoever reads it sets the bounds, and both ends must end well."""
    command = (*remote.command, shlex.join(arguments))
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors) as sender:
            assert sender.stdout is not None
            try:
                yield sender.stdout.fileno()
                sender.stdout.close()
                sender.wait(600)  # seconds; all that it had to send has come
            except subprocess.TimeoutExpired:
                raise NodeError(f"{remote.name}: {what}: it does not end") from None
            except NodeError as error:
                sender.kill()
                raise NodeError(f"{what} did not come from {remote.name}: {error} {_end_of(errors)}"[:400]) from error
            finally:
                sender.kill()
        if sender.returncode != 0:
            raise NodeError(f"{remote.name}: {what} did not come whole: {_end_of(errors)}")

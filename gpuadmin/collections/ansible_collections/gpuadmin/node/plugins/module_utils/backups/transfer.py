"""A second copy of a backup on another host: each home by itself, compared where it arrives.

The storage host calls; copy_server.py answers on the other host. Whatever happens to one home, the others get their
copy; every question has a time limit.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gpuadmin.common.records.backups import BackupHost
from gpuadmin.common.records.people import Home

from ..budget import unlimited
from ..each import Failed, each
from ..errors import NodeError, in_words
from . import backup_set, received, sending
from .applying import Applier, take_manifest
from .backup_set import Backup
from .copy_stream import BOUNDS, FULL, Bounds
from .copying import Owner
from .sending import Source
from .verifying import Limits
from .wire import Link, Pulse, Stopped

ANSWER = 2 * received.DOCUMENT  # bytes of the longest answer
RATE = 5 << 20  # bytes a second that a home may come at, at the least, beside the seconds that it may take anyway
LOST = 3  # homes in a row for which the other host did not answer: then it is away
OLDER = "it answers as an older gpuadmin does: gpuadmin provision --limit {}"


@dataclass(frozen=True)
class Remote:
    """The other host, and how it is called. ``command``: all of ssh except what to do there."""

    name: str
    command: tuple[str, ...]
    bounds: Bounds = BOUNDS


def ssh_command(address: str, key: str, known_hosts: str, port: int = 22) -> tuple[str, ...]:
    """ssh as root with one key and one known host, and nothing of anybody's configuration."""
    return (
        "ssh", "-F", "none", "-T", "-p", str(port), "-i", key, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
        "-o", f"UserKnownHostsFile={known_hosts}", "-o", "GlobalKnownHostsFile=none", "-o", "StrictHostKeyChecking=yes",
        "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=8", f"root@{address}",
    )  # fmt: skip


def connect(host: BackupHost | None) -> Remote | None:
    """Given the host of the second copies, return how it is called; None where there is none."""
    if host is None:
        return None
    return Remote(host.host, ssh_command(host.address, host.key, host.known_hosts, host.port))


@contextmanager
def asked(remote: Remote, *arguments: str, seconds: float | None = None) -> Iterator[Link]:
    """A connection for one question. Raises Stopped where the other host does not answer, NodeError if it refuses.

    ``seconds``: how long all of it may take; None: as the remote's bounds say.
    """
    command = (*remote.command, shlex.join(arguments))
    bounds = remote.bounds if seconds is None else replace(remote.bounds, total=seconds)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as called:
        assert called.stdin is not None
        assert called.stdout is not None
        assert called.stderr is not None
        link = Link(
            called.stdout.fileno(), called.stdin.fileno(), complaints=called.stderr.fileno(), bounds=bounds,
            close=called.stdin.close,
        )  # fmt: skip
        status: int | None = None
        try:
            yield link
            link.close()
            link.rest(0)
            status = called.wait(bounds.idle)
        except (Stopped, subprocess.TimeoutExpired) as error:
            status = _status(called, link)
            words = link.words()
            if status not in (0, 255, None):
                raise NodeError(f"{remote.name}: {arguments[0]}: {words or f'ended with {status}'}") from error
            raise Stopped(f"{remote.name}: {arguments[0]}: {words or error}") from error
        finally:
            called.kill()
    if status != 0:
        kind = Stopped if status == 255 else NodeError
        raise kind(f"{remote.name}: {arguments[0]}: {link.words() or f'ended with {status}'}")


def _status(called: subprocess.Popen[bytes], link: Link) -> int | None:
    """The exit status of a program that has closed its pipes; None if it still runs."""
    try:
        status = called.wait(2)
    except subprocess.TimeoutExpired:
        return None
    link.hear()
    return status


def _answer(remote: Remote, *arguments: str, data: bytes = b"", seconds: float | None = None) -> Mapping[str, object]:
    with asked(remote, *arguments, seconds=seconds) as link:
        link.say(data)
        link.close()
        try:
            found = link.rest(ANSWER)
        except Stopped:
            raise
        except NodeError as error:
            raise NodeError(f"{remote.name}: {arguments[0]}: {error}") from error
    try:
        answer = json.loads(found)
        if not isinstance(answer, dict):
            raise ValueError("no document")
    except (ValueError, RecursionError):
        raise NodeError(f"{remote.name}: {arguments[0]}: {OLDER.format(remote.name)}") from None
    return answer


def sets(remote: Remote, directory: str) -> dict[str, Backup]:
    """The complete sets of the other host as it describes them, as they would be in ``directory``, oldest first.

    One that cannot be read is left out. Raises NodeError.
    """
    found = _answer(remote, "list").get("sets")
    if not isinstance(found, dict):
        raise NodeError(f"{remote.name}: list: {OLDER.format(remote.name)}")
    result = {}
    for name in sorted(one for one in found if backup_set.NAME.match(one)):
        try:
            result[name] = received.parse(directory, name, json.dumps(found[name]))
        except NodeError:
            continue  # another version made it, or the host lies: the other sets count all the same
    return result


def serves(remote: Remote, seconds: float) -> bool:
    """Whether the other host serves the homes itself by now (`gpuadmin promote`). Raises NodeError."""
    return _answer(remote, "serves", seconds=seconds).get("serves") is True


def newest(user: str, directory: str, remote: Remote, name: str = "") -> Backup | None:
    """The set of that name; without one the newest with a verified home of the person's, else the newest that has it.

    Its homes count as not verified here.
    """
    there = sets(remote, directory)
    found = there.get(name) if name else backup_set.newest(reversed(list(there.values())), user)
    if found is None:
        return None
    return replace(found, homes={one: replace(home, verified=None) for one, home in found.homes.items()})


@dataclass(frozen=True)
class Task:
    """A home that is sent (``parent``: as the difference to the one in that set), or verified there, or both."""

    backup: Backup
    user: str
    remote: Remote
    limits: Limits
    send: bool
    verify: bool
    parent: Backup | None = None

    @property
    def home(self) -> Home:
        return self.backup.homes[self.user]

    @property
    def size(self) -> int:
        """How many bytes it may take to send it: the large ones go last."""
        if not self.send:
            return 0
        return self.home.bytes if self.parent is None else abs(self.home.bytes - self.parent.homes[self.user].bytes)

    @property
    def seconds(self) -> float:
        """Seconds that it may take: those of any home, and more for its bytes, as far as this disk can hold them."""
        space = os.statvfs(self.backup.path)
        used = (space.f_blocks - space.f_bfree) * space.f_frsize
        return self.limits.seconds + min(self.home.bytes, used) / RATE


@dataclass(frozen=True)
class Lost:
    """The other host did not answer."""

    why: str


def send(
    backup: Backup, remote: Remote, earlier: Sequence[Backup], limits: Limits | None = None, workers: int = 2
) -> tuple[str, dict[str, str]]:
    """Send those homes of a set that the other host lacks. Returns when that was done, and who has no copy and why.

    ``earlier``: sets here, newest first; where the other host has one of them, only the difference is sent. A home that
    is verified here is verified there, too. Raises NodeError if nothing can be copied.
    """
    directory = os.path.dirname(backup.path)
    with backup_set.reading(directory, backup.name):
        there = sets(remote, directory)
        begun = _answer(remote, "begin", backup.name, data=json.dumps(backup_set.document(backup)).encode())
        have = {str(one) for key in ("there", "kept") for one in _listed(begun.get(key))}
        old = there.get(backup.name)
        tasks = []
        for user, home in backup.homes.items():
            verified = old is not None and user in old.homes and old.homes[user].verified
            task = Task(
                backup, user, remote, limits or Limits(), user not in have, bool(home.verified and not verified)
            )
            if task.send or task.verify:
                tasks.append(replace(task, parent=_parent(backup, user, earlier, there) if task.send else None))
        lacking = _all(sorted(tasks, key=lambda task: (task.size, task.user)), workers)
        when = _answer(remote, "commit", backup.name).get("when")
    # guard: a copy counts when the other host says when it had it
    if not isinstance(when, str) or not received.TIME.match(when):
        raise NodeError(f"{remote.name} did not say when it had {backup.name}")
    return when, lacking


def fetch(remote: Remote, name: str, user: str, inner: str, manifest: int, top: int, links: int, owner: Owner) -> None:
    """Fetch a home, or a part of it, from the other host into the open directory ``top``, with ids as ``owner`` says.

    Its manifest goes into the open file ``manifest``. A part that is not a directory is ``sending.PART`` in ``top``.
    ``links``: an empty directory beside it. Raises NodeError. The caller compares what came with the manifest.
    """
    with asked(remote, "send", name, user, *([inner] if inner else [])) as link:
        take_manifest(link, manifest, received.MANIFEST)
        applier = Applier(top, links, link, unlimited(), owner=owner)
        fields = applier.run()
        if "mode" in fields:
            applier.finish(fields)


def _listed(found: object) -> Sequence[object]:
    return found if isinstance(found, list) else ()


def _parent(backup: Backup, user: str, earlier: Sequence[Backup], there: Mapping[str, Backup]) -> Backup | None:
    """The newest set that both hosts have with the same home of that person in it."""
    home = backup.homes[user]
    for one in earlier:
        mine, theirs = one.homes.get(user), there[one.name].homes.get(user) if one.name in there else None
        if one.name == backup.name or mine is None or theirs is None or mine.uid != home.uid:
            continue
        if (
            # guard: a difference is of homes that are the same here and there
            (mine.uid, mine.checksum) == (theirs.uid, theirs.checksum) and (one.format == 1) == (backup.format == 1)
        ):
            return one
    return None


def _all(tasks: Sequence[Task], workers: int) -> dict[str, str]:
    """Do the tasks in order; return who has no copy, and why. Gives up on a host that is silent LOST times in a row."""
    lacking = {task.user: "was not reached" for task in tasks}
    lost = 0
    for task, found in _each(tasks, workers):
        if found is None:
            del lacking[task.user]
        else:
            lacking[task.user] = found.why
        lost = lost + 1 if isinstance(found, Lost) else 0
        if lost >= LOST and isinstance(found, Lost):  # guard: a host that is away is not asked for ever
            return {**lacking, **{user: found.why for user, why in lacking.items() if why == "was not reached"}}
    return lacking


@dataclass(frozen=True)
class NoRoomThere:
    """The other host had no room. Another home that arrived then may have taken it."""

    why: str


def _each(tasks: Sequence[Task], workers: int) -> Iterator[tuple[Task, Lost | NoRoomThere | Failed | None]]:
    """Do the tasks; then those that found no room once more, one by one."""
    seconds = 8 * max((task.seconds for task in tasks), default=0.0)  # sent, sent whole, verified
    again: list[Task] = []
    for task, found in each(_one, tasks, workers, seconds):
        if isinstance(found, NoRoomThere):
            again.append(task)  # guard: who had no room has another try alone
        yield task, found
    yield from each(_one, again, 1, seconds)


def _one(task: Task) -> Lost | NoRoomThere | Failed | None:
    try:
        if task.send:
            _send(task)
        if task.verify:
            with asked(task.remote, "verify", task.backup.name, task.user, seconds=3 * task.seconds) as link:
                _done(link, task)
    except Stopped as error:
        return Lost(str(error))
    except (NodeError, OSError) as error:
        why = in_words(error)
        return (
            NoRoomThere(why)
            if any(one in why for one in (FULL, *map(os.strerror, (errno.ENOSPC, errno.EDQUOT))))
            else Failed(why)
        )
    return None


def _send(task: Task) -> None:
    if task.parent is not None:
        try:
            with backup_set.reading(os.path.dirname(task.parent.path), task.parent.name):
                _stream(task, task.parent)
            return
        except Stopped:
            raise
        except (NodeError, OSError):
            pass  # send it whole: that needs nothing that the other host has
    _stream(task, None)


def _stream(task: Task, parent: Backup | None) -> None:
    arguments = ("home", task.backup.name, task.user, *((parent.name,) if parent else ()))
    source = Source.of(task.backup, task.user)
    with asked(task.remote, *arguments, seconds=2 * task.seconds) as link:
        link.put("home", home=dict(vars(task.home)))
        earlier = None if parent is None else Source.of(parent, task.user)
        sending.send(source, link, Pulse(link, task.seconds, task.limits.most), earlier)
        _done(link, task)


def _done(link: Link, task: Task) -> None:
    if link.wait()[0] != "done":
        raise NodeError(f"{task.remote.name} did not say that it has {task.user}")

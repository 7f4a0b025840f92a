"""Whether a node may take further work: one answer for slurmd's check of each minute (HealthCheckProgram), a job's
prolog and epilog, whoever grants or takes a GPU, and an admin who resumes the node.

What is broken stays so until an admin resumes the node, after another look. What people or other hosts cause, and what
is seen to be mended, passes: a full disk, homes that do not answer, a driver that says nothing. Running jobs go on.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Optional, TypeVar

from .documents import parse_settings
from .errors import NodeError, in_words
from .files import lock_directory, read_bytes, write_atomic
from .gpus import burning, gate, look
from .gpus.gate import Places
from .gpus.isolated_call import HungError, isolated_call
from .gpus.look import Expected, Seen, Sick
from .limits.room import disk
from .mounts import network_filesystem
from .run import run_command

#: In the node's state: what the role has written, and the site's own checks.
SETTINGS, CHECKS = "health.json", "health.d"
#: Until the next boot: the last answer.
ANSWER = "health.json"
#: Seconds for which an answer is one to jobs that end, to jobs that begin, and to a timer of each minute.
JUST_NOW, BURST, MINUTE = 2, 20, 50
#: For all of the site's own checks together.
SECONDS = 25.0
#: A disk with fewer free bytes than LEAST, or than a PART-th of a small disk, is full; so is one with fewer free inodes
#: than a PART-th. It has room again with AGAIN times as much.
LEAST, PART = 1 << 30, 50
AGAIN = 2
#: Statuses of timeout(1), and of a shell: the check was killed; it, or a program that it needs, could not be run.
_KILLED, _NOT_RUN = (-9, 137), (126, 127)
T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """What the role has written. ``disks``: a path on each disk that jobs need. ``homes``: where they are mounted from
    elsewhere. ``gpus``, ``model``: as the inventory has them. ``ignore``: parts of sentences that close no node."""

    disks: Sequence[str] = ("/", "/var")
    homes: str = ""
    gpus: Optional[int] = None
    model: str = ""
    ignore: Sequence[str] = ()


@dataclass(frozen=True)
class Health:
    """``sick``: what keeps further work away. ``full``: mount points of full disks. ``room``: no disk is nearly full.
    ``answering``: as that of Seen. ``own``: of ``sick``, what the site's own checks say, begun at ``own_at``.
    ``at``, ``own_at``: seconds since 1970."""

    sick: Sequence[Sick]
    full: Sequence[str]
    room: bool
    answering: Optional[Sequence[str]] = None  # in the file as null, which counts as left out
    own: Sequence[Sick] = ()
    at: float = 0.0
    own_at: float = 0.0

    @property
    def lasting(self) -> list[Sick]:
        return [one for one in self.sick if not one.passes]

    def working(self, gpus: Iterable[str], settings: gate.Settings) -> set[str]:
        """Those of ``gpus`` (UUIDs) that somebody may be given, on a node without a queue. A full disk, or homes that
        are away, take no GPU from anybody there."""
        sick = {one.gpu for one in self.lasting}
        answering = set(gpus) if settings.gpus is not None else set(self.answering or ())
        return set() if "" in sick else {one for one in gpus if one in answering} - sick

    @property
    def words(self) -> list[str]:
        return [*(one.words for one in self.sick), *(f"full disk: {one}" for one in self.full)]


def look_at_node(where: Places, most_age: float = 0, *, own: bool = False, seen: Seen | None = None) -> Health:
    """The answer, at most ``most_age`` seconds old. ``own``: run the site's own checks as well; otherwise what they
    have said last counts. ``seen``: the GPUs, for whoever has just looked."""
    path = os.path.join(where.run, ANSWER)
    last, now = _read(Health, path), time.time()
    # guard: an answer of another time is not one
    if last is not None and 0 <= now - (last.own_at if own else last.at) < most_age:
        return last
    settings = _read(Settings, os.path.join(where.state, SETTINGS)) or Settings()
    sick, answering = _look_at_gpus(settings, where, seen)
    mine = [*_run_checks(os.path.join(where.state, CHECKS))] if own else last.own if last else ()
    sick += [*mine, *_look_at_homes(settings.homes, where.run)]
    sick += [Sick(words) for words in burning.problems(where.state)]
    # guard: what the site says not to mind closes no node -> sick
    sick = [one for one in sick if not any(part in one.words for part in settings.ignore)]
    found = Health(sick, [*_below(settings.disks, 1)], not any(_below(settings.disks, AGAIN)), answering, mine,
                   time.time(), now if own else last.own_at if last else 0.0)  # fmt: skip
    try:
        lock_directory(where.run)
        write_atomic(path, json.dumps(asdict(found)).encode(), mode=0o600, sync=False)
    except OSError:
        pass  # the next one looks again
    return found


def _read(kind: type[T], path: str) -> T | None:
    """What is in a file of ours; None where there is none, or none that can be read."""
    try:
        data = read_bytes(path)
        return None if data is None else parse_settings(kind, json.loads(data), path)
    except (NodeError, OSError, ValueError) as error:
        print(f"Error: {in_words(error)}")
        return None


def _look_at_gpus(settings: Settings, places: Places, seen: Seen | None) -> tuple[list[Sick], Sequence[str] | None]:
    if gate.read(places.settings).gpus is not None:
        return [], ()  # stand-ins without a driver
    if seen is None:
        where = look.Places(places.root, lock=os.path.join(places.run, "gpus.lock"))
        seen = look.look(where, kernels=False)
    # guard: what a burn-in has proved mended does not close the node again -> 0
    since = burning.settled(places.state)
    seen = replace(seen, xids=[one for one in seen.xids or () if float(str(one["seconds"])) >= since])
    return [*look.judge(seen, Expected(settings.gpus, settings.model)).sick], seen.answering


def _run_checks(directory: str) -> Iterator[Sick]:
    """What the site's own checks say: the first line of each that ends with another status than 0."""
    end = time.monotonic() + SECONDS
    for name in sorted(os.listdir(directory) if os.path.isdir(directory) else ()):
        left = max(0.1, end - time.monotonic())
        # guard: a check that is late leaves nothing behind -> (os.path.join(directory, name),)
        command = ("timeout", "--signal=KILL", f"{left:.1f}", os.path.join(directory, name))
        try:
            done = run_command(command, seconds=left + 1)
        except (NodeError, OSError) as error:  # what hangs in the kernel is left to it
            yield Sick(f"{name}: {in_words(error)}", passes=True)
        else:
            said = (done.stdout.strip() or done.stderr.strip()).splitlines()
            if done.returncode in _KILLED:  # load makes a check late, and people make load
                yield Sick(f"{name}: no answer in {left:.0f} s", passes=True)
            elif done.returncode != 0:  # guard: a node that a site's own check finds sick takes no job
                words = said[0] if said else f"status {done.returncode}"
                yield Sick(f"{name}: {words}", passes=done.returncode in _NOT_RUN)


def _look_at_homes(path: str, run: str) -> Iterator[Sick]:
    """Asked in a process apart: a file server that is away holds nobody up."""

    def ask() -> dict[str, object]:
        os.statvfs(path)
        return {"type": network_filesystem(path)}

    words, lock = "", os.path.join(run, "homes-asked")
    try:
        if path and not isolated_call(ask, seconds=10.0, lock=lock)["type"]:
            words = "are not mounted"
    except (NodeError, OSError) as error:
        words = "do not answer" if isinstance(error, HungError) else f"do not answer: {in_words(error)}"
    if words:  # guard: where the homes are away no job begins
        yield Sick(f"the homes ({path}) {words}", passes=True)


def _below(paths: Iterable[str], times: int) -> Iterator[str]:
    """Yield the mount points of disks with less than ``times`` the space of a full one."""
    seen = set()
    for path in paths:
        try:
            found = disk(path)
            inodes = os.statvfs(found.mount)
        except (NodeError, OSError):  # guard: a disk on a file server, or that cannot be looked at, closes no node
            continue
        little = found.free < times * min(LEAST, found.bytes // PART)
        few = inodes.f_favail < times * (inodes.f_files // PART)  # btrfs has none to run out of: 0 of 0
        if (little or few) and found.mount not in seen:
            seen.add(found.mount)
            yield found.mount

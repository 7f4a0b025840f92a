"""The storage host's side: homes are fetched from nodes, first while their people work, then what has changed since.

A home that arrives is in ``.gpuadmin-moving/NAME/HOST`` of the directory of homes, where root alone can enter. Node
code of another host may send anything: applying.py makes it, and nothing counts that is not as its manifest says.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ansible_collections.gpuadmin.node.plugins.module_utils.backups import home_manifest, home_reader, received, sending
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.applying import Applier, take_manifest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.copy_stream import NoRoom
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.transfer import RATE, Remote, asked
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.wire import Link
from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import open_directory
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import ENTRIES, SECONDS, Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked, sync_filesystem
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import RUN, STATE
from ansible_collections.gpuadmin.node.plugins.module_utils.purge import gone

from . import place, record
from .record import ASIDE, BEGUN, CHANGING, COPIED, LATE, PLACED, Part
from .serving import TICK, written

TIMES, LEAST = 4.0, 120.0  # of the copy's seconds, and at the least, that what has changed since may take


@dataclass(frozen=True)
class Task:
    """A home that is fetched. ``run``: where locks are. ``bound``: seconds that it may take; 0: as its size needs."""

    part: Part
    root: str
    remote: Remote
    state: str = STATE
    run: str = RUN
    bound: float = 0.0

    @property
    def seconds(self) -> float:
        return self.bound or 4 * SECONDS + 2 * self.part.bytes / RATE

    def budget(self) -> Budget:
        return Budget(self.seconds, 3 * ENTRIES)


@contextmanager
def arriving(task: Task) -> Iterator[int]:
    """The directory of root's in which the homes of a person arrive, open; one process at a time is in it."""
    lock = os.path.join(task.run, f"move-homes.{task.part.name}.lock")
    with flocked(lock, task.seconds), place.opened(task.root) as homes:
        above = place.own(homes, place.MOVING)
        try:
            handle = place.own(above, task.part.name)
        finally:
            os.close(above)
        try:
            yield handle
        finally:
            os.close(handle)


@contextmanager
def _links(at: int, host: str) -> Iterator[int]:
    """A directory for files with several names, empty."""
    name = f"{host}.links"
    gone(at, name)
    handle = place.own(at, name)
    try:
        yield handle
    finally:
        os.close(handle)
        gone(at, name)


def _fill(task: Task, at: int, top: int, link: Link) -> None:
    with _links(at, task.part.host) as links:
        applier = Applier(top, links, link, task.budget())
        fields = applier.run()
    applier.finish(fields)


@contextmanager
def _opened(at: int, host: str) -> Iterator[int]:
    """What has arrived, open for reading. btrfs shows by a handle only what was there when it was opened."""
    handle = open_directory(host, at)
    try:
        yield handle
    finally:
        os.close(handle)


def _have(task: Task, at: int) -> None:
    """Write down what has arrived, as it is on this disk."""
    where = record.path(task.state, task.part.name, task.part.host, "have.gz")
    with _opened(at, task.part.host) as top:
        written(where, lambda write: home_manifest.total(home_reader.lines(top, budget=task.budget()), write))


def copy(task: Task) -> Part:
    """Fetch a home while its person works. Done before: only what an interruption left is read."""
    with arriving(task) as at:
        part, host = task.part, task.part.host
        known = record.load(task.state, part.name, host)
        inode = place.inode_at(at, host)
        # guard: what has its place is not copied over
        if known is not None and known.step in (PLACED, ASIDE):
            raise NodeError(f"the home on {host} has been moved: run it again")
        same = known is not None and (known.inode, known.here) == (part.inode, inode)
        if known is not None and same and known.step in (COPIED, CHANGING):
            if known.step == CHANGING:  # guard: what was changed in part is read before it counts as known
                _have(task, at)
            return record.save(task.state, replace(part, step=COPIED, here=inode, seconds=known.seconds))
        record.save(task.state, replace(part, step=BEGUN))
        gone(at, host)
        os.mkdir(host, 0o700, dir_fd=at)
        try:
            return _copied(task, at)
        except BaseException as error:
            gone(at, host)  # guard: who fills the disk leaves it to the others
            if isinstance(error, OSError):  # guard: who fills the disk ends nobody else's copy
                raise NodeError(in_words(error)) from error
            raise


def _copied(task: Task, at: int) -> Part:
    part, host = task.part, task.part.host
    begun = time.monotonic()
    top = open_directory(host, at)
    try:
        with asked(task.remote, "home", part.name, seconds=task.seconds) as link:
            _fill(task, at, top, link)
        _have(task, at)
        sync_filesystem(task.root)  # guard: a copy is on the disk before it counts
        took = time.monotonic() - begun
        return record.save(task.state, replace(part, step=COPIED, here=os.fstat(top).st_ino, seconds=took))
    finally:
        os.close(top)


def with_bound(task: Task) -> Task:
    """The same, with the seconds that ``take`` may need: some times those of the copy, which its person waits for."""
    try:
        known = record.load(task.state, task.part.name, task.part.host)
    except NodeError:  # guard: whose record is damaged is named, and the others are taken
        known = None
    took = 0.0 if known is None else known.seconds
    # guard: who is kept out is kept out for some times as long as the copy took -> 20.0
    bound = max(LEAST, TIMES * took)
    return replace(task, bound=bound)


def note_late(task: Task) -> str:
    """What has changed took too long: the next run copies the home anew. Returns why it is left, in words."""
    known = record.load(task.state, task.part.name, task.part.host)
    if known is not None and known.step in (COPIED, CHANGING):
        record.save(task.state, replace(known, step=LATE))
    return (
        f"what has changed in the home on {task.part.host} since it was copied was not here within {task.seconds:.0f} "
        "seconds: the next run copies it anew"
    )


def take(task: Task) -> Part:
    """``_take``, within its seconds."""
    begun = time.monotonic()
    try:
        return _take(task)
    except (NodeError, OSError) as error:
        late = time.monotonic() - begun >= task.seconds
        # guard: who fills the disk keeps nobody else out
        raise NodeError(note_late(task) if late else in_words(error)) from error


def _take(task: Task) -> Part:
    """Fetch what has changed since, and compare all of it with the node's manifest. Nobody works in it meanwhile.

    Raises NodeError; then the home on the node is what counts.
    """
    with arriving(task) as at:
        part, host = task.part, task.part.host
        known = record.load(task.state, part.name, host)
        # guard: only what was copied is taken
        if known is None or known.step != COPIED or place.inode_at(at, host) != known.here:
            raise NodeError(f"the home on {host} was not copied: run it again")
        have, manifest = (record.path(task.state, part.name, host, one) for one in ("have.gz", "gz"))
        top = open_directory(host, at)
        try:
            untouched = time.time_ns() - TICK
            record.save(task.state, replace(known, step=CHANGING))
            with asked(task.remote, "difference", part.name, seconds=task.seconds) as link:
                sending.put_manifest(have, link)
                link.flush()
                handle = os.open(
                    f"{manifest}.part", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
                )
                try:
                    take_manifest(link, handle, received.MANIFEST)
                    os.fsync(handle)
                finally:
                    os.close(handle)
                _fill(task, at, top, link)
        except (NoRoom, OSError) as error:
            if isinstance(error, NoRoom) or error.errno in (errno.ENOSPC, errno.EDQUOT):
                record.save(task.state, replace(part, step=BEGUN))
                gone(at, host)
            raise
        finally:
            os.close(top)
        total = home_manifest.total(home_manifest.read(f"{manifest}.part", task.budget()))
        _compare(task, at, total.checksum, untouched)
        sync_filesystem(task.root)  # guard: what is renamed in is on the disk
        os.rename(f"{manifest}.part", manifest)
        return record.save(task.state, replace(known, step=CHANGING, **vars(total)))


def _compare(task: Task, at: int, checksum: str, untouched: int) -> None:
    """Raise NodeError unless what is here is what the node's manifest says."""
    name, host = task.part.name, task.part.host
    have, manifest = (record.path(task.state, name, host, one) for one in ("have.gz", "gz.part"))
    with _opened(at, host) as top:
        if os.fstat(top).st_uid != task.part.uid:  # guard: nobody's home comes as another's
            raise NodeError(f"what came from {host} belongs to uid {os.fstat(top).st_uid}, not {task.part.uid}")
        earlier = home_manifest.read(have)
        found = home_reader.lines(top, earlier=earlier, budget=task.budget(), untouched=untouched)
        if home_manifest.total(found).checksum != checksum:  # guard: what was moved is what the node has
            again = home_reader.lines(top, budget=task.budget())
            words = home_manifest.compare(home_manifest.read(manifest), again)
            raise NodeError(
                f"what came from {host} differs from what is there: {', '.join(words) or 'not known where'}"
            )

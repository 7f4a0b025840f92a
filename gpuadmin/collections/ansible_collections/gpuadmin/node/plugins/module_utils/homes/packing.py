"""Packing a tree into an archive that is read back, and then deleting of the tree what the archive has.

When packing began is kept as the archive's own time, so that a deletion that was cut can be ended by another run: what
was changed or came after it is in no archive, and stays.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence

from gpuadmin.common.records.people import Purged

from .. import btrfs, mounts
from ..errors import NodeError, in_words
from ..fields import STAMP
from ..files import sync_directory, sync_filesystem
from ..purge import Judge, purge
from ..safe_walk import Entry
from . import tar_compare

LONGEST = 4095  # bytes of a path that tar can unpack (limits.h: PATH_MAX, with its final zero)
BUDGET = 24 * 3600.0  # seconds for one archive: no honest home takes longer
RESERVE = 64 << 20  # bytes that stay free where archives lie: copies that share their blocks are whole in an archive
POLL = 0.2  # seconds
_COARSE = 5  # linux/time.h: CLOCK_REALTIME_COARSE


def suffix() -> str:
    """How the name of an archive ends on this host."""
    return "tar.zst" if shutil.which("zstd") else "tar.gz"


def archive_path(directory: str, name: str, uid: int, label: str = "") -> str:
    """Where a new archive of somebody's files goes, in a directory that is made for root alone."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    while True:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        path = os.path.join(directory, f"{name}-{uid}-{stamp}{label}.{suffix()}")
        if not os.path.lexists(path):
            return path
        time.sleep(0.1)  # the name of the next second is free


def clear_debris(directory: str, name: str, uid: int, label: str = "") -> None:
    """Delete what packing left that was cut: parts of archives of this person's and of this label."""
    part = re.compile(rf"{re.escape(name)}-{uid}-{STAMP}{re.escape(label)}\.tar\.(zst|gz)\.part\Z")
    for entry in os.listdir(directory):
        if part.match(entry):
            os.unlink(os.path.join(directory, entry))


def mark(archive: str) -> str:
    """Which archive this is, in 16 hexadecimal digits: its name, inode, size, and the moment at which it was begun.

    A tree that is named after it is in that archive and no other. Raises OSError if there is no such file.
    """
    facts = os.lstat(archive)
    facets = (os.path.basename(archive), facts.st_mode, facts.st_ino, facts.st_size, facts.st_mtime_ns)
    return hashlib.sha256("\0".join(map(str, facets)).encode()).hexdigest()[:16]


def pack(path: str, target: str, *, seconds: float = BUDGET) -> None:
    """Pack ``path``, subvolumes in it included, into the file ``target``, which root alone can read.

    The archive is compared with the tree before it gets its name. Raises NodeError, and leaves nothing, otherwise, and
    where it is not done in ``seconds``.
    """
    if os.path.lexists(target):  # guard: an archive replaces none
        raise NodeError(f"{target} is there already; run this again")
    refuse_mounts(path)  # guard: nothing is packed that something is mounted in
    part = target + ".part"
    tick = _limits(path, os.path.dirname(target), seconds)
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    try:
        begun = _moment()
        # guard: what is mapped and dirty is on disk before it is packed
        sync_filesystem(path)  # a mapped page that is already dirty takes further writes without a new ctime
        _refuse_long(path, tick)
        _create(path, part, target, tick)
        _compare(path, part, target, tick)  # guard: an archive is compared with the tree
        os.utime(part, ns=(begun, begun))
        sync_filesystem(part)
    except BaseException:
        os.unlink(part)
        raise
    os.rename(part, target)
    sync_directory(os.path.dirname(target))


def refuse_mounts(path: str) -> None:
    inside = mounts.below(os.path.realpath(path), mounts.parse_mountinfo(mounts.read_mountinfo()))
    if inside:
        raise NodeError(f"{inside[0].point} is mounted inside of {path}: kept")


def _moment() -> int:
    """A time that is later than that of all that was written before, and not later than that of what comes after.

    File systems take their times from this clock, or from one that lags behind it by up to a tick.
    """
    now = time.time_ns()
    while time.clock_gettime_ns(_COARSE) <= now:
        time.sleep(0.001)  # until the next tick of that clock
    return now + 1


def _limits(path: str, directory: str, seconds: float) -> Callable[[], None]:
    """What ends the packing of a tree that somebody made to be endless, or to fill the disk."""
    deadline, next_look = time.monotonic() + seconds, 0.0

    def tick() -> None:
        nonlocal next_look
        now = time.monotonic()
        if now > deadline:
            raise NodeError(f"packing {path} took longer than {seconds:.0f} seconds: kept")
        if now < next_look:
            return
        next_look = now + POLL
        space = os.statvfs(directory)
        if space.f_bavail * space.f_frsize < RESERVE:  # guard: an archive that would fill the disk
            raise NodeError(f"less than {RESERVE >> 20} MiB are free in {directory}: {path} is kept")

    return tick


def _refuse_long(path: str, tick: Callable[[], None]) -> None:
    """tar packs paths that it cannot unpack, and nobody could: a backup keeps and restores them."""
    for name, _entry in tar_compare.members(path):
        tick()
        if len(name) > LONGEST:  # guard: paths that tar cannot unpack
            raise NodeError(
                f"{path} is kept: it has a path of {len(name)} bytes, and no archive with more than {LONGEST} could be "
                f"unpacked ({os.fsdecode(name)[:60]!r}…). A backup can hold it, and restore-home --to brings it back; "
                "or give the directories in it shorter names"
            )


def _compression(target: str) -> str:
    return {"zst": "zstd", ".gz": "gzip"}[target[-3:]]


def _create(path: str, part: str, target: str, tick: Callable[[], None]) -> None:
    above, name = os.path.split(path)
    command = (
        "tar", "--create", "--format=posix", "--sparse", "--sort=name", f"--{_compression(target)}", "--force-local",
        "--numeric-owner", "--acls", "--xattrs", f"--file={part}", f"--directory={above}", f"./{name}",
    )  # fmt: skip
    with tempfile.TemporaryFile() as output:
        # C: by bytes, as the comparison orders them
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   env={**os.environ, "LC_ALL": "C"})  # fmt: skip
        try:
            while process.poll() is None:
                tick()
                try:
                    process.wait(POLL)
                except subprocess.TimeoutExpired:
                    pass
        finally:
            _end(process)
        if process.returncode != 0:
            output.seek(max(0, output.seek(0, os.SEEK_END) - 300))
            raise _not_the_same(path, f"'{' '.join(command)}' ended with {process.returncode}: {_text(output.read())}")


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace").strip()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def _not_the_same(path: str, why: str) -> NodeError:
    return NodeError(f"the archive is not what is in {path} (is somebody still writing in it?): kept. {why}")


def _compare(path: str, part: str, target: str, tick: Callable[[], None]) -> None:
    """Raise NodeError if the archive is not, entry by entry, what the tree is now."""
    command: Sequence[str] = (_compression(target), "--decompress", "--stdout", "--quiet")
    with open(part, "rb") as packed, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(tuple(command), stdin=packed, stdout=subprocess.PIPE, stderr=errors)
        try:
            assert process.stdout is not None
            with process.stdout as stream:
                tar_compare.compare(stream, path, tick)
            if process.wait() != 0:  # guard: a decompressor that failed
                errors.seek(0)
                raise NodeError(f"{part} cannot be read back: {_text(errors.read(300))}")
        except (NodeError, OSError) as error:
            tick()  # if it took too long, or filled the disk, nobody else is to blame
            raise _not_the_same(path, in_words(error)) from error
        finally:
            _end(process)


def delete(path: str, archive: str) -> Purged:
    """Delete what has not changed since it was packed into ``archive``. If it is cut off, the next call continues."""
    refuse_mounts(path)  # guard: nothing is deleted that something is mounted in
    above, name = os.path.split(path)
    handle = btrfs.open_directory(above)
    try:
        return purge(handle, os.fsencode(name), _unchanged(os.stat(archive).st_mtime_ns))
    finally:
        sync_filesystem(above)
        os.close(handle)


def _unchanged(begun: int) -> Judge:
    linked: dict[tuple[int, int], tuple[int, int]] = {}

    def judge(entry: Entry) -> str | None:
        if entry.is_directory:
            return None  # what is in it decides
        facts = entry.facts
        inode, content = (facts.st_dev, facts.st_ino), (facts.st_size, facts.st_mtime_ns)
        if facts.st_ctime_ns < begun:  # guard: a deletion is not before what is written meanwhile -> True
            if facts.st_nlink > 1:
                linked[inode] = content
            return None
        # the first of several hard links has gone, which changed the others' ctime
        return None if linked.get(inode) == content else "was changed after it was packed"

    return judge

"""Getting an image onto a node's disk: fetched and checked, then received, then moved to its place."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import subprocess
import time
from collections.abc import Callable
from typing import IO, Protocol

from gpuadmin.common.text import size_words

from .. import btrfs, faults
from ..errors import NodeError, in_words
from ..files import sync_directory
from ..root import guard
from ..run import run
from . import subvolumes
from .manifest import Manifest, Stream
from .places import Places

BLOCK = 1 << 20
Progress = Callable[[str], None]


def stream_path(places: Places, stream: Stream) -> str:
    """Where a stream is on the node while it is needed: under its digest, so that a part of it is known again."""
    return places.in_top("incoming", f"{stream.sha256}.stream")


def clean(places: Places, keep: Stream | None = None) -> list[str]:
    """Delete what earlier attempts left: all of incoming/ but the stream that is wanted, and unfinished roots.

    Returns what was removed. Unfinished roots are known by their name, which no finished root has, and by their id.
    """
    removed = []
    incoming, roots = places.in_top("incoming"), places.in_top("roots")
    kept = (
        {os.path.basename(stream_path(places, keep)) + end for end in ("", ".part", ".relay")}
        if keep is not None
        else set()
    )
    for directory, wanted in ((incoming, lambda name: name not in kept), (roots, lambda name: name.endswith(".new"))):
        for name in sorted(os.listdir(directory)):
            path = os.path.join(directory, name)
            if not wanted(name):
                continue
            if btrfs.inspect(path) is not None:
                subvolumes.delete(path, places)
            elif os.path.isdir(path) and not os.path.islink(path):
                run(("rm", "-rf", "--one-file-system", "--", path))
            else:
                os.unlink(path)
            removed.append(os.path.relpath(path, places.top))
    return removed


class _OtherDigest(NodeError):
    """What came is not what the manifest says."""


class Watcher(Protocol):
    """Who is notified how far a stream has come."""

    def reached(self, path: str, count: int) -> None: ...


def fetch(places: Places, manifest: Manifest, stream: Stream, progress: Progress, also: Watcher | None = None) -> float:
    """Copy a stream from the store: size and sha256 as in the manifest, fsync, rename. Returns bytes per second.

    What is here of it, from an earlier attempt or a relay, is read for its digest and gone on from. Where that turns
    out to be wrong, all of it is fetched once more. ``also`` is notified how much of it is in which file.
    """
    target = stream_path(places, stream)
    if os.path.exists(target):
        if also is not None:
            also.reached(target, stream.bytes)
        return 0.0
    part = f"{target}.part"
    begun = os.path.exists(part)
    try:
        rate = _copy(places, manifest, stream, part, progress, also)
    except _OtherDigest:
        if not begun:
            raise
        progress(f"what was here of {manifest.name} is wrong; fetching all of it")
        rate = _copy(places, manifest, stream, part, progress)
    os.rename(part, target)
    sync_directory(os.path.dirname(target))
    return rate


def _copy(
    places: Places, manifest: Manifest, stream: Stream, part: str, progress: Progress, also: Watcher | None = None
) -> float:
    source = os.path.join(places.store, manifest.name, stream.file)
    total = hashlib.sha256()
    try:
        with open(source, "rb") as remote, open(part, "a+b", opener=_private) as local:
            size = os.fstat(remote.fileno()).st_size
            if size != stream.bytes:
                raise NodeError(
                    f"{source} has {size} bytes, its manifest says {stream.bytes}: "
                    f"gpuadmin list-images {manifest.name} --verify"
                )
            local.seek(0)
            already = _hash(local, total, stream.bytes)
            if also is not None:
                also.reached(part, already)
            local.truncate(already)
            local.seek(already)
            remote.seek(already)
            rate = _pour(remote, local, total, (already, stream.bytes), progress, also)
            local.flush()
            os.fsync(local.fileno())
    except OSError as error:
        if error.errno == errno.ENOSPC:
            if os.path.exists(part):
                os.unlink(part)
            raise NodeError(f"the disk is full: no room for the {size_words(stream.bytes)} of {manifest.name}; "
                            "make room in /local, or gpuadmin prune-images") from error  # fmt: skip
        raise NodeError(
            f"the image store went away while {manifest.name} was fetched ({in_words(error)}); run it again, it goes on"
        ) from error
    if total.hexdigest() != stream.sha256:  # guard: a stream has the manifest's sha256
        os.unlink(part)
        raise _OtherDigest(
            f"{manifest.name} arrived with another sha256 than its manifest says; it is deleted and nothing was "
            f"received. gpuadmin list-images {manifest.name} --verify says whether the store or the network is to blame"
        )
    return rate


def _private(path: str, flags: int) -> int:
    """A stream holds password hashes and keys: nobody else reads it, whatever the umask is."""
    return os.open(
        path,
        flags | os.O_NOFOLLOW,
        0o600,  # guard: what is fetched is root's alone -> 0o644
    )


def _pour(
    remote: IO[bytes],
    local: IO[bytes],
    total: hashlib._Hash,
    ends: tuple[int, int],
    progress: Progress,
    also: Watcher | None,
) -> float:
    """Copy the bytes between two ends; return bytes per second."""
    already, size = ends
    done, begin = already, time.monotonic()
    reported = begin
    while done < size:
        block = remote.read(BLOCK)
        if not block:
            raise NodeError(f"{remote.name} ended after {done} of {size} bytes; what came is kept, run it again")
        total.update(block)
        local.write(block)
        done += len(block)
        if also is not None:
            local.flush()
            also.reached(local.name, done)
        if done - len(block) <= size // 2 < done:
            faults.at("fetch:middle")
        if time.monotonic() - reported > 1:
            reported = time.monotonic()
            rate = (done - already) / (reported - begin)
            progress(f"fetching {done / 1e6:.1f} of {size / 1e6:.1f} MB, {rate / 1e6:.1f} MB/s")
    return (size - already) / max(time.monotonic() - begin, 1e-3)


def _hash(local: IO[bytes], total: hashlib._Hash, most: int) -> int:
    done = 0
    while done < most:
        block = local.read(min(BLOCK, most - done))
        if not block:
            break
        total.update(block)
        done += len(block)
    return done


def receive(places: Places, manifest: Manifest, stream: Stream) -> None:
    """Receive a fetched stream and move it to images/. It is there completely, durable and proven, or not at all."""
    final = places.in_top("images", manifest.name)
    there = btrfs.inspect(final)
    if there is not None:
        if subvolumes.is_image(there, manifest.uuid):  # guard: another image of the name is not taken for it -> True
            return
        raise NodeError(
            f"this node has another image of the name {manifest.name} (uuid {there.received_uuid or there.uuid}, "
            f"not {manifest.uuid}); remove it with gpuadmin prune-images, or build under a new name"
        )
    incoming = places.in_top("incoming")
    fetched = stream_path(places, stream)
    _receive(fetched, incoming, manifest)
    got = places.in_top("incoming", manifest.name)
    found = btrfs.inspect(got)
    if found is None:
        raise NodeError(f"the stream of {manifest.name} holds no subvolume of that name")
    if not found.read_only or found.received_uuid != manifest.uuid:  # guard: what was received has the manifest's uuid
        raise NodeError(
            f"{manifest.name} was received with uuid {found.received_uuid}, its manifest says {manifest.uuid}"
        )
    guard.sync(places.top)
    faults.at("receive:moved")
    # A read-only subvolume cannot move to another directory. A snapshot can be made there; a read-only one keeps the
    # received_uuid, and it is on the disk when it is made: making it commits the transaction.
    btrfs.snapshot(got, final)
    subvolumes.delete(got, places, durable=False)
    os.unlink(fetched)


def _receive(fetched: str, incoming: str, manifest: Manifest) -> None:
    """zstd | btrfs receive, with the status of both: send and zstd have been seen to end with 0 on half a stream."""
    unpack = subprocess.Popen(("zstd", "-dcq", "--", fetched), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    taker = subprocess.Popen(
        ("btrfs", "-q", "receive", "-e", incoming),
        stdin=unpack.stdout,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert unpack.stdout is not None
    assert unpack.stderr is not None
    unpack.stdout.close()
    _out, complaint = taker.communicate()
    noise = unpack.stderr.read()
    unpack.stderr.close()
    unpack.wait()
    if taker.returncode == 0 and unpack.returncode == 0:
        return
    lines = (complaint or noise).decode("utf-8", "replace").strip().splitlines()
    last = lines[-1] if lines else f"receive ended with {taker.returncode}, zstd with {unpack.returncode}"
    if "No space left" in last:
        raise NodeError(
            f"the disk became full while {manifest.name} was received; make room in /local, or gpuadmin prune-images"
        )
    if re.search("cannot find parent|parent subvolume", last):
        raise NodeError(f"the parent of {manifest.name} is not on this node as it was sent ({last}); push with --full")
    raise NodeError(f"{manifest.name} could not be received: {last}")

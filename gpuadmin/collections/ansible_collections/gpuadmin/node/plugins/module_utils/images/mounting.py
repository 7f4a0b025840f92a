"""The top level of the disk, and the image store, mounted for as long as they are needed."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gpuadmin.common.records.images import ImageSettings

from ..errors import NodeError
from ..mounts import keep_own, mounted_on, parse_mountinfo, read_mountinfo
from ..run import run, run_command
from .places import Places


@contextmanager
def mounted(places: Places, settings: ImageSettings, *, store: str | None) -> Iterator[None]:
    """The top level, and the store (``ro``, ``rw`` or None) for the block."""
    done = []
    if places.own:  # guard: a look that is killed leaves nothing mounted
        keep_own()
        _clear_looks(os.path.dirname(places.top))
    try:
        if not os.path.ismount(places.top):
            os.makedirs(places.top, mode=0o700, exist_ok=True)
            run(("mount", "-t", "btrfs", "-o", "noatime,subvolid=5", device(), places.top), what="the disk")
            done.append(places.top)
            run(("mount", "--make-private", places.top), what="the disk")
        if store is not None:
            if not settings.store:
                raise NodeError("this node knows no image store: run gpuadmin prepare-root")
            os.makedirs(places.store, mode=0o700, exist_ok=True)
            if not os.path.ismount(places.store):
                # soft: a storage host that goes away ends in an error, not in a process that nothing ends
                options = f"{store},soft,timeo=100,retrans=2,vers=4.2,noatime,nosuid,nodev,noexec"
                run(("mount", "-t", "nfs4", "-o", options, settings.store, places.store), what="the image store")
                done.append(places.store)
        yield
    finally:
        for path in reversed(done):
            run_command(("umount", "-l", path))
        # rmdir(2) takes away what others have mounted there in namespaces of their own: a push, while a relay ends
        if places.own:  # guard: what ends leaves the others what they have mounted -> True
            with suppress(OSError):  # still mounted: it is left as it is
                os.rmdir(places.top)


def _clear_looks(run_directory: str) -> None:
    """Remove the empty directories of looks that were killed."""
    for path in glob.glob(os.path.join(glob.escape(run_directory), "look-*")):
        if not os.path.exists(f"/proc/{path.rpartition('-')[2]}"):
            with suppress(OSError):  # another look removes it, too
                os.rmdir(path)


def device() -> str:
    """The block device of the running root."""
    found = mounted_on("/", parse_mountinfo(read_mountinfo()))
    if found is None:
        raise NodeError("this host's root is not in mountinfo")
    return found.source

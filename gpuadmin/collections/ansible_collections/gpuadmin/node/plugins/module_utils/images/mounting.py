"""The top level of the disk, and the image store, mounted for as long as they are needed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import NodeError
from ..run import run
from .places import ImageSettings, Places


@contextmanager
def mounted(places: Places, settings: ImageSettings, *, store: str | None) -> Iterator[None]:
    """The top level, and the store (``ro``, ``rw`` or None) for the block."""
    done = []
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
            subprocess.run(("umount", "-l", path), check=False, capture_output=True)


def device() -> str:
    """The block device of the running root."""
    with open("/proc/self/mountinfo", encoding="utf-8") as stream:
        found = [line.partition(" - ")[2].split()[1] for line in stream if line.split()[4] == "/"]
    return found[-1]

"""One run at a time changes a site. The kernel holds the lock, so a killed run leaves none behind."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from gpuadmin.errors import GpuadminError, RefusedError
from gpuadmin.who import who


@contextmanager
def site_lock(runs: Path, verb: str) -> Iterator[None]:
    """Hold the site's lock. Raises RefusedError naming who has it, since when, and for which verb."""
    try:
        runs.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(runs / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise GpuadminError(
            f"{error.filename}: {error.strerror}", hint="whoever runs gpuadmin must be able to write to the site"
        ) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise GpuadminError(f"{runs / '.lock'}: is not a regular file", hint="delete it; gpuadmin makes its own")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # guard: one run at a time changes a site
        except BlockingIOError:
            raise RefusedError(
                f"the site is locked: {_holder(descriptor)}",
                hint="wait for that run to end; its lock goes with it, there is no file to delete",
            ) from None
        holder = {
            "who": who(),
            "pid": os.getpid(),
            "verb": verb,
            "since": datetime.now(UTC).isoformat(),
        }
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        since = datetime.fromisoformat(holder["since"]).astimezone()
        return f"{holder['who']} runs {holder['verb']} since {since:%Y-%m-%d %H:%M:%S} (process {holder['pid']})"
    except (ValueError, KeyError, TypeError):
        return "another run has just begun"

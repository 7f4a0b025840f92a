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

HANDED_ON = "GPUADMIN_LOCK"  # for a verb that a run waits for: the descriptor by which it has that run's lock


@contextmanager
def site_lock(runs: Path, verb: str) -> Iterator[int | None]:
    """Hold the site's lock, and yield its descriptor; None within a run that has handed it on, and waits for this one:
    a window's. When that one is killed, the descriptor holds the lock as long as this one goes on.

    Raises RefusedError naming who has it, since when, and for which verb.
    """
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
            if not _is_handed_on(descriptor):  # guard: nobody but the verb of a window goes on beside its lock
                raise RefusedError(
                    f"the site is locked: {_holder(descriptor)}",
                    hint="wait for that run to end; its lock goes with it, there is no file to delete",
                ) from None
            yield None
            return
        holder = {
            "who": who(),
            "pid": os.getpid(),
            "verb": verb,
            "since": datetime.now(UTC).isoformat(),
        }
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _is_handed_on(descriptor: int) -> bool:
    try:
        given = int(os.environ.get(HANDED_ON, ""))
        if same := os.path.samestat(os.fstat(given), os.fstat(descriptor)):
            fcntl.flock(given, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused, unless this very descriptor has the lock
    except (OSError, ValueError):
        return False
    return same


def _holder(descriptor: int) -> str:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        since = datetime.fromisoformat(holder["since"]).astimezone()
        return f"{holder['who']} runs {holder['verb']} since {since:%Y-%m-%d %H:%M:%S} (process {holder['pid']})"
    except (ValueError, KeyError, TypeError):
        return "another run has just begun"

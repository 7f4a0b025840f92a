"""A lock that another process holds."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOLD = """import fcntl, os, sys, time
handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
getattr(fcntl, sys.argv[2])(handle, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


@contextmanager
def held(path: Path, kind: str = "flock", user: int | None = None) -> Iterator[int]:
    """Another process holds a lock on ``path``."""
    child = subprocess.Popen(
        ["/usr/bin/python3", "-I", "-c", HOLD, str(path), kind], stdout=subprocess.PIPE, user=user, cwd="/"
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"held\n"
        yield child.pid
    finally:
        child.kill()
        child.wait()
        child.stdout.close()

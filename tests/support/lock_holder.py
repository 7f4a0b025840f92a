"""A lock, or a lease, that another process holds."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOLD = """import fcntl, os, signal, sys, time
handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
if sys.argv[2] == "lease":
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # by which the kernel asks for it back
    fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
else:
    getattr(fcntl, sys.argv[2])(handle, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


@contextmanager
def held(path: Path, kind: str = "flock") -> Iterator[int]:
    """Another process holds a lock on ``path``; ``kind``: flock, lockf or lease."""
    child = subprocess.Popen(["/usr/bin/python3", "-I", "-c", HOLD, str(path), kind], stdout=subprocess.PIPE, cwd="/")
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"held\n"
        yield child.pid
    finally:
        child.kill()
        child.wait()
        child.stdout.close()

"""Processes that look as if they had ended."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = """
import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)  # exit(2)
"""


@contextmanager
def first_thread_ended(uid: int, *open_files: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody's whose first thread has ended: State Z, and another one that goes on with these files."""
    command = ["/usr/bin/python3", "-c", PROGRAM]
    with subprocess.Popen(command, user=uid, group=uid, extra_groups=[], pass_fds=open_files) as process:
        try:
            while "\nState:\tZ" not in Path(f"/proc/{process.pid}/status").read_text():
                assert process.poll() is None
            yield process
        finally:
            process.kill()

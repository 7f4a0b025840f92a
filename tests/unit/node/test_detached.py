"""A process that is left behind has nothing of the one that it comes from: no output, no lock, no session."""

import os
from pathlib import Path

from ansible_collections.gpuadmin.node.plugins.module_utils.detached import detach, forked


def test_it_keeps_what_it_was_told_to_and_nothing_else(tmp_path: Path) -> None:
    other = os.open(tmp_path, os.O_RDONLY)
    reader, writer = os.pipe()
    child = forked()
    if child == 0:
        try:
            detach(writer)
            names = [str(Path(f"/proc/self/fd/{one}").readlink()) for one in range(3)]
            there = other in {int(one.name) for one in Path("/proc/self/fd").iterdir()}
            os.write(writer, f"{names} {there} {os.getsid(0) == os.getpid()}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.close(other)
    with os.fdopen(reader, "rb") as stream:
        assert stream.read().decode() == f"{['/dev/null'] * 3} False True"
    os.waitpid(child, 0)

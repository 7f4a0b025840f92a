"""Reading files that people hand over: as much as fits, and no more."""

from __future__ import annotations

import os
from pathlib import Path

from gpuadmin.errors import ConfigError

LARGEST = 16 * 1024 * 1024  # bytes; ten thousand people with a key each are a quarter of that


def read_limited(path: Path, most: int = LARGEST) -> bytes:
    """Given a path, return the file's bytes. Raises ConfigError where there are more than `most`; FileNotFoundError and
    other OSErrors are the caller's.
    """
    with path.open("rb") as stream:
        raw = stream.read(most + 1)
    if len(raw) > most:
        raise ConfigError(f"{path}: is larger than {most // 1024 // 1024} MiB", hint="is it the right file?")
    return raw


def is_absent(path: Path) -> bool:
    """Whether there surely is nothing at `path`. Where that cannot be seen (a directory that is closed to us, or a link
    that leads nowhere) an OSError is raised: what cannot be looked at is not nothing.
    """
    try:
        os.lstat(path)
    except FileNotFoundError:
        if path.parent.is_symlink():
            path.parent.stat()
        return True
    return False

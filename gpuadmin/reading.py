"""Reading files that people hand over: as much as fits, and no more."""

from __future__ import annotations

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

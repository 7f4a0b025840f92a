"""Files of the monitor host that the pages need, and the one error of the dashboard, with a sentence for admins."""

from __future__ import annotations

import os


class DashboardError(Exception):
    """Something cannot be done; ``str(error)`` says why, in words."""


def in_words(error: BaseException) -> str:
    """Given an error, return its sentence: of the system's own `/etc/some: Permission denied`, without its number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error) or type(error).__name__
    return f"{error.filename}: {error.strerror}" if isinstance(error.filename, str) else error.strerror


def read_bytes(path: str) -> bytes | None:
    """The content of a file; None if there is none. Raises OSError."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def write_atomic(path: str, data: bytes, *, mode: int, sync: bool = True) -> None:
    """Replace ``path`` by ``data``: a cut leaves the old file or the new one. ``sync``: durably. Raises OSError."""
    temporary = f"{path}.new"
    with open(temporary, "wb") as stream:
        os.fchmod(stream.fileno(), mode)
        stream.write(data)
        stream.flush()
        if sync:
            os.fsync(stream.fileno())
    os.replace(temporary, path)
    if sync:
        directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

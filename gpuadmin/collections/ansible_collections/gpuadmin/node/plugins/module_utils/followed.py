"""What has to follow a change, such as a service that reads its settings again: remembered until it has.

The next call finds nothing more to write: without this it would not make up for a run that was killed in between, or
whose command failed. In /run: at a boot everything is read anyway.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable

from .files import make_directory, read_bytes, unlink_if_present, write_atomic
from .paths import RUN

DIRECTORY = "unfollowed"


def make_name(paths: Iterable[str]) -> str:
    """A name for what has to follow changes of these paths, whatever is in them."""
    return hashlib.sha256("\0".join(sorted(paths)).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def left(name: str, run: str | None = None) -> list[str]:
    """The paths whose change nothing has followed yet."""
    path = _path(name, run)
    data = read_bytes(path)
    try:
        return [] if data is None else [str(one) for one in json.loads(data)]
    except (ValueError, TypeError):
        return [path]  # guard: a damaged note of what has to follow counts as one -> []


def remember(name: str, paths: Iterable[str], run: str | None = None) -> None:
    """Before the first of them is changed."""
    above = os.path.join(run or RUN, DIRECTORY)
    make_directory(os.path.dirname(above), 0o755)
    make_directory(above, 0o700)
    write_atomic(_path(name, run), json.dumps(sorted(paths)).encode(), mode=0o600, sync=False)


def forget(name: str, run: str | None = None) -> None:
    unlink_if_present(_path(name, run))


def _path(name: str, run: str | None) -> str:
    return os.path.join(run or RUN, DIRECTORY, name)

"""The one error of the node-side code: a sentence that an admin can act on; and those of the system, in words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


class NodeError(Exception):
    """Nothing further can be done; ``str(error)`` says why, in words."""


class NothingBegun(NodeError):
    """The same, before the operation began anything."""


@contextmanager
def nothing_begun() -> Iterator[None]:
    """For what an operation only looks at, before it begins: an error in it is a NothingBegun."""
    try:
        yield
    except (NodeError, OSError) as error:
        raise NothingBegun(in_words(error)) from error


def in_words(error: BaseException) -> str:
    """Given an error, return its sentence: of the system's own `/home/minji: Permission denied`, without its number.

    A path that holds what no terminal should be shown is quoted, as Python does it.
    """
    if not isinstance(error, OSError) or not error.strerror:
        return str(error) or type(error).__name__
    if not isinstance(error.filename, (str, bytes)):  # none, or a descriptor
        return error.strerror
    path = os.fsdecode(error.filename)
    return f"{path if path.isprintable() else repr(path)}: {error.strerror}"

"""Walking a home in a set with the subvolumes that are in it, as its manifest lists it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from ..btrfs import PLACEHOLDER_INODE, open_directory
from ..budget import Budget
from ..errors import NodeError
from ..safe_walk import Entry, same_file_system, walk

Stub = Callable[[str], None]


def order(path: str | bytes) -> tuple[bytes, ...]:
    """Where a path comes in the walk."""
    return tuple(os.fsencode(path).split(b"/"))


def visits(top: int, nested: Mapping[str, str], budget: Budget, stub: Stub = lambda path: None) -> Iterator[Entry]:
    """Everything below the open directory ``top``; each directory a second time (``leaving``), after all that is in it.

    ``nested``: path below ``top`` → where the snapshot of the subvolume lies that was there. An entry's ``path`` is the
    one in the home; ``name`` and ``at`` say where it can be opened, until the next one is asked for. ``stub`` is called
    for an empty directory in the place of a subvolume that is not among those; it is left out.
    """
    rest = {os.fsencode(path): where for path, where in nested.items()}
    yield from _below(top, b"", rest, budget, stub)
    if rest:  # guard: a subvolume without a place in the copy is an error
        raise NodeError(f"{os.fsdecode(min(rest))!r} has no place in the copy")


def _enter(entry: Entry, parent: os.stat_result) -> bool:
    """Whether the walk enters a directory. Raises NodeError where it would leave the file system."""
    if entry.facts.st_dev != parent.st_dev and entry.facts.st_ino != PLACEHOLDER_INODE:
        raise NodeError(f"{os.fsdecode(entry.path)!r} is on another file system")
    return same_file_system(entry, parent)


def _below(top: int, prefix: bytes, rest: dict[bytes, str], budget: Budget, stub: Stub) -> Iterator[Entry]:
    for entry in walk(top, _enter, leaving=True, budget=budget):
        path = prefix + entry.path
        if rest:
            directory, before = (path, None) if entry.leaving else (path.rpartition(b"/")[0], path)
            yield from _missing(directory, before, rest, budget, stub)
        if entry.is_directory and entry.facts.st_ino == PLACEHOLDER_INODE:
            if path in rest:
                yield from _volume(path, rest, budget, stub)
            else:
                stub(os.fsdecode(path))
        else:
            if path in rest and not entry.leaving:  # guard: a subvolume whose place something else has is an error
                raise NodeError(f"{os.fsdecode(path)!r} is in it twice, as a subvolume and as something else")
            yield Entry(path, entry.name, entry.at, entry.facts, entry.leaving)
    if rest:
        yield from _missing(prefix.rstrip(b"/"), None, rest, budget, stub)


def _missing(
    directory: bytes, before: bytes | None, rest: dict[bytes, str], budget: Budget, stub: Stub
) -> Iterator[Entry]:
    """Subvolumes in a directory whose place comes ``before`` a path; None: all that have not come when it is left.

    btrfs send leaves out the empty directories that stand for them.
    """
    while True:
        own = [
            one
            for one in rest
            if one.rpartition(b"/")[0] == directory and (before is None or order(one) < order(before))
        ]
        if not own:
            return
        yield from _volume(min(own, key=order), rest, budget, stub)


def _volume(path: bytes, rest: dict[bytes, str], budget: Budget, stub: Stub) -> Iterator[Entry]:
    place = rest.pop(path)
    above = open_directory(os.path.dirname(place))
    name = os.fsencode(os.path.basename(place))
    try:
        facts = os.stat(name, dir_fd=above, follow_symlinks=False)
        yield Entry(path, name, above, facts)
        handle = open_directory(name, above)
        try:
            yield from _below(handle, path + b"/", rest, budget, stub)
        finally:
            os.close(handle)
        yield Entry(path, name, above, facts, leaving=True)
    finally:
        os.close(above)

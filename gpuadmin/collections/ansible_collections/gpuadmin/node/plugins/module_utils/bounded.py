"""Looks within bounds, at what people may have shaped: foreign text, small files, parts in processes of their own."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from .detached import let_go
from .each import bound_memory, each
from .errors import NodeError, in_words
from .fields import CONTROL

Asked = TypeVar("Asked")
GENTLE = 10  # nice(2) of a look that nobody waits for
LONGEST_TEXT = 300  # characters of a foreign text in a report
LARGEST_FILE = 256 << 10  # bytes that are read of a file that a person may have written
MEMORY = 1 << 30  # bytes of address space for one part: a person who makes something large ends that part alone


def short(text: object, most: int = LONGEST_TEXT) -> str:
    """A foreign text for a report: one line, without what a terminal obeys, of bounded length."""
    plain = CONTROL.sub("?", str(text).replace("\n", " ")).strip()
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def confine() -> None:
    """Bound the memory of this process, which looks at one part, and keep its output out of the module's.

    A process that hangs in the kernel keeps no connection open.
    """
    bound_memory(MEMORY)  # guard: the memory of a part has a bound
    let_go()


def look_at(name: str, *, parts: Mapping[str, Callable[[Asked], object]], of: Asked, nice: int = 0) -> object:
    """Look at one part, in a process of its own (each.py). ``nice``: nice(2), where people's work comes first."""
    confine()
    os.chdir("/")
    os.nice(nice)
    try:
        return parts[name](of)
    except OSError as error:  # a full disk may be what is asked about, and must not end the other parts
        raise NodeError(in_words(error)) from None


def look_gently(
    parts: Mapping[str, Callable[[Asked], object]], of: Asked, seconds: float, *, at_once: int
) -> Iterator[tuple[str, object]]:
    """Look at parts one by one, and yield each with what it found, or `Failed`: people work on the host meanwhile."""
    look = partial(look_at, parts=parts, of=of, nice=GENTLE)
    return each(
        look,
        list(parts),
        at_once,
        seconds,  # guard: a part that hangs is unknown, and no other is -> 60 * seconds
        grace=0,
    )


def read_small(path: str, directory: int | None = None, most: int = LARGEST_FILE) -> bytes:
    """Read the beginning of a regular file, at most ``most`` bytes. No link is followed, no pipe waited for.

    Raises OSError; NodeError for what is not a regular file.
    """
    flags = (
        os.O_RDONLY
        | os.O_NOFOLLOW  # guard: a link in place of a file of keys is not followed
        | os.O_NONBLOCK
        | os.O_CLOEXEC
        | os.O_NOCTTY
    )
    handle = os.open(path, flags, dir_fd=directory)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # guard: what is not a regular file is not read
            raise NodeError("is not a regular file")
        found = b""
        while len(found) < most:
            part = os.read(handle, most - len(found))
            if not part:
                break
            found += part
        return found
    finally:
        os.close(handle)


def numbers(text: str) -> Iterator[tuple[str, int]]:
    """The lines ``key value`` or ``key: value kB`` of a file of the kernel's."""
    for line in text.splitlines():
        words = line.replace(":", " ").split()
        if len(words) >= 2 and words[1].isdecimal():
            yield words[0], int(words[1])

"""Keeps compiled what a run has loaded from a host's code: a process that nobody waits for writes it to disk.

Python hands over what it compiles (modules/operation.py). So nothing is compiled twice, nothing of it is on the way of
a run, and what no run uses is compiled for units alone (docs/decisions/0149). A file is whole and on disk before it has
its name: a power cut, or a disk that is full, leaves one file less.
"""

from __future__ import annotations

import fcntl
import marshal
import os
from collections.abc import Callable, Iterator, Mapping
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash

from .code_cache import COMPILING, LOCK
from .detached import detach, forked
from .files import write_atomic

_UNCHECKED = (1).to_bytes(4, "little")  # PEP 552: the source never changes, and Python need not look at it


def every(place: str) -> Iterator[tuple[str, bytes]]:
    """All sources below ``place`` that are not compiled: where it belongs, and the compiled code. What this Python
    cannot compile, no module needs here.
    """
    for directory, _names, files in os.walk(place):
        for path in (os.path.join(directory, name) for name in files if name.endswith(".py")):
            cache = cache_from_source(path)
            if os.path.exists(cache):
                continue
            with open(path, "rb") as stream:
                source = stream.read()
            try:
                code = compile(source, path, "exec", dont_inherit=True)
            except (SyntaxError, ValueError):
                continue
            yield cache, MAGIC_NUMBER + _UNCHECKED + source_hash(source) + marshal.dumps(code)


def write(found: Iterator[tuple[str, bytes]]) -> None:
    """Write compiled code where it belongs. Raises OSError."""
    for cache, data in found:
        os.makedirs(os.path.dirname(cache), exist_ok=True)
        # guard: what is compiled is on disk before it has its name -> write_atomic(cache, data, mode=0o644, sync=False)
        write_atomic(cache, data, mode=0o644)


def later(place: str, found: Callable[[], Iterator[tuple[str, bytes]]]) -> None:
    """Begin to write what ``found`` gives, of code below ``place``, and do not wait.

    One process at a time does it; what is left out because of that is compiled again by what needs it next.
    """
    try:
        handle = os.open(os.path.join(place, COMPILING), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # guard: one process at a time compiles
        if forked() == 0:
            _write_apart(handle, place, found)
    except OSError:
        pass  # somebody else is writing, or no process can be made
    finally:
        os.close(handle)


def after(place: str, found: Mapping[str, bytes]) -> None:
    """At the end of a run: what Python has compiled for it, by where it belongs."""
    if found:
        later(place, lambda: iter(found.items()))


def _write_apart(handle: int, place: str, found: Callable[[], Iterator[tuple[str, bytes]]]) -> None:
    """The process: it has the lock, and ends here."""
    try:
        detach(handle)
        os.umask(0o022)  # people read it: gpuadmin-me
        os.nice(19)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        # until the end: what is locked is not pruned
        # guard: code that is being pruned is not compiled
        fcntl.flock(os.open(os.path.join(place, LOCK), os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_SH | fcntl.LOCK_NB)
        write(found())
    finally:
        os._exit(0)

"""What a run has loaded from the code that a host keeps is compiled after it, once, by a process that nobody waits for.

Nothing of it is on the way of a run, and what no run of this host uses is never compiled (docs/decisions/0149). What is
written is whole and on disk before it has its name: a power cut, or a disk that is full, leaves one file less.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash

from .files import write_atomic
from .kept import COMPILING, LOCK

_UNCHECKED = (1).to_bytes(4, "little")  # PEP 552: the source never changes, and Python need not look at it
_BEGIN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {} import main; main()".format(__name__)


def loaded(place: str) -> Iterator[str]:
    """The sources below ``place`` that this process has loaded without their being compiled."""
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None) or ""
        if path.startswith(f"{place}/") and not os.path.exists(cache_from_source(path)):
            yield path


def every(place: str) -> Iterator[str]:
    """The sources below ``place`` that are not compiled."""
    for directory, _names, files in os.walk(place):
        for path in (os.path.join(directory, name) for name in files if name.endswith(".py")):
            if not os.path.exists(cache_from_source(path)):
                yield path


def later(place: str, paths: Iterable[str]) -> None:
    """Begin to compile these sources below ``place``, and do not wait: one process at a time does it.

    Where it cannot be begun, what needs the code compiles it for itself, as before.
    """
    wanted = sorted(set(paths))
    if not wanted:
        return
    try:
        handle = os.open(os.path.join(place, COMPILING), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        null = subprocess.DEVNULL
        subprocess.Popen(  # it inherits the lock, and outlives this process
            (sys.executable, "-IBS", "-c", _BEGIN, place, place, *wanted), stdin=null, stdout=null, stderr=null,
            start_new_session=True, pass_fds=(handle,), cwd="/",
        )  # fmt: skip
    except OSError:
        pass  # another one is at it, or no process can be made
    finally:
        os.close(handle)


def compile_all(paths: Iterable[str]) -> None:
    """Compile these sources. What this Python cannot compile, no module needs here."""
    for path in paths:
        with open(path, "rb") as stream:
            source = stream.read()
        try:
            code = compile(source, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        cache = cache_from_source(path)
        os.makedirs(os.path.dirname(cache), exist_ok=True)
        write_atomic(cache, MAGIC_NUMBER + _UNCHECKED + source_hash(source) + marshal.dumps(code), mode=0o644)


def main() -> None:
    """The process: its arguments are the directory of the code, and sources in it."""
    place, *paths = sys.argv[1:]
    os.umask(0o022)  # people read it: gpuadmin-me
    os.nice(19)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    # until the end: what is locked is not pruned
    fcntl.flock(os.open(os.path.join(place, LOCK), os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_SH | fcntl.LOCK_NB)
    compile_all(paths)

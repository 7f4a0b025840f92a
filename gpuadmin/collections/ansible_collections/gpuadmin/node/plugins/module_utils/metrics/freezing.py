"""All that one person runs stands still for a moment: who starts processes faster than anybody looks cannot hide."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..cgroups import find_owner, slice_file
from ..detached import detach, forked

LONGEST = 60.0  # seconds after which they go on, whatever we do
PATIENCE = 2.0  # seconds until all stand still


@contextmanager
def frozen(uid: int, cgroups: str) -> Iterator[None]:
    """Freeze a person's slice meanwhile, where there is one: cgroup v2's freezer. A process of its own thaws it, also
    when this one is killed.
    """
    file = slice_file(uid, "cgroup.freeze", cgroups)
    if (
        file is None
        # guard: whoever runs this is not frozen, for nobody would thaw them
        or find_owner(os.getpid()) == uid
    ):
        yield
        return
    path = os.path.dirname(file)
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = forked()
    if child == 0:
        try:
            detach(reader)
            _write(path, "1")
            select.select([reader], [], [], LONGEST)  # it can be read from when whoever holds the other end has gone
        finally:
            try:
                _write(path, "0")  # guard: who was frozen goes on -> None
            finally:
                os._exit(0)
    try:
        os.close(reader)
        end = time.monotonic() + PATIENCE
        while not _stands_still(path) and time.monotonic() < end:
            time.sleep(0.01)  # nobody is told
        yield
    finally:
        os.close(writer)
        os.waitpid(child, 0)


def _write(path: str, value: str) -> None:
    with open(f"{path}/cgroup.freeze", "w", encoding="ascii") as stream:
        stream.write(value)


def _stands_still(path: str) -> bool:
    with open(f"{path}/cgroup.events", encoding="ascii") as stream:
        return "frozen 1\n" in stream.read()

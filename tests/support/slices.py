"""A cgroup of version 2 that stands for somebody's slice, on the machine that runs the tests."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BASES = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")


def own_cgroup(name: str = "") -> Path:
    """A new cgroup. Skips where this machine has none."""
    base = next((one for one in BASES if Path(one, "cgroup.controllers").exists()), None)
    if base is None:
        pytest.skip("this machine mounts no cgroup v2")
    own = Path(base) / f"gpuadmin-test-{os.getpid()}{name}"
    try:
        own.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error.strerror}")
    return own


@contextmanager
def own_slice(uid: int) -> Iterator[Path]:
    """That of a person, in a root of its own, which is two directories above."""
    top = own_cgroup("-slice")
    slices = top / "user.slice"
    slices.mkdir()
    found = slices / f"user-{uid}.slice"
    found.mkdir()
    try:
        yield found
    finally:
        (found / "cgroup.freeze").write_text("0")
        (found / "cgroup.kill").write_text("1")
        for path in (found, slices, top):
            _remove(path)


def _remove(path: Path) -> None:
    """What was killed needs a moment to leave."""
    for _ in range(100):
        try:
            path.rmdir()
            return
        except OSError:
            time.sleep(0.02)
    raise AssertionError(f"{path} is still in use")

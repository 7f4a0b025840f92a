"""A cgroup of version 2 that stands for somebody's slice, on the machine that runs the tests."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuadmin.lab.probe import cgroup_root


def own_cgroup(name: str = "") -> Path:
    """A new cgroup. Skips where this machine has none."""
    base = cgroup_root()
    if base is None:
        pytest.skip("this machine mounts no cgroup v2")
    own = base / f"gpuadmin-test-{os.getpid()}{name}"
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
            time.sleep(0.02)  # nothing tells when a cgroup is empty
    raise AssertionError(f"{path} is still in use")

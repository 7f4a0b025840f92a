"""Fixtures of the tests of a reset."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.semester_cluster import Cluster, make_cluster
from tests.support.storage import Storage, mounted

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster, found by the command line, that answers in Ansible's place."""
    # in memory: every step is synced, and a disk that others use makes minutes of that
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(prefix="gpuadmin-reset-", dir=memory if memory.is_dir() else None) as base,
        mounted(Path(base) / "disk", tmp_path / "srv", 256) as point,
    ):
        cluster = make_cluster(Path(base), Storage(point))
        monkeypatch.setattr("gpuadmin.ansible.runner.run", cluster.run)
        monkeypatch.setenv("GPUADMIN_SITE", str(cluster.site))
        yield cluster

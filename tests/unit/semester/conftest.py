"""Fixtures of the tests of a reset."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

COLLECTIONS = Path(__file__).resolve().parents[3] / "gpuadmin" / "collections"
if str(COLLECTIONS) not in sys.path:
    sys.path.insert(0, str(COLLECTIONS))

from tests.unit.node.storage import Storage, mounted  # noqa: E402
from tests.unit.semester.cluster import Cluster, make_cluster  # noqa: E402

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster, found by the command line, that answers in Ansible's place."""
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        cluster = make_cluster(tmp_path, Storage(point))
        monkeypatch.setattr("gpuadmin.run.run", cluster.run)
        monkeypatch.setenv("GPUADMIN_SITE", str(cluster.site))
        yield cluster

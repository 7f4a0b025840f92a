"""A real Prometheus with the scene's measurements, once for all tests of the pages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.testclient import TestClient

from tests.unit.dashboard.board import OpenAccess, board, settings
from tests.unit.dashboard.scene import before, now
from tests.unit.monitoring.server import blocks, prometheus


class Scene(NamedTuple):
    """Where the Prometheus answers, of when the scene is, and a directory for files."""

    port: int
    when: float
    directory: Path

    def client(self, **more: Any) -> TestClient:
        """A browser without cookies of its own; who it is says the header `test-viewer`."""
        site = settings(self.directory, self.when, **more)
        return TestClient(
            board(self.port, OpenAccess(), site), base_url="https://monitor", raise_server_exceptions=False
        )


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("scene")
    when = time.time()
    # the same holds some minutes later, so that a slow machine does not make it stale
    lines = [*before(when, hours=10), *now(when), *now(when + 240), *now(when + 480)]
    with prometheus(directory, blocks(directory, lines)) as port:
        yield Scene(port, when, directory)

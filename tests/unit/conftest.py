"""Fixtures of tests of the controller's code."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.unit.support import make_site

# times on a busy machine say nothing
settings.register_profile("gpuadmin", deadline=None, max_examples=60)
settings.load_profile("gpuadmin")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site with a storage host and two nodes, and nobody registered."""
    monkeypatch.delenv("GPUADMIN_SITE", raising=False)
    return make_site(tmp_path / "site")

"""What tests of backups share."""

import os

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set


@pytest.fixture
def end_of_the_year(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is of the future is refused, and these sets have names of their own time."""
    monkeypatch.setattr(backup_set, "now", lambda: os.environ["TEST_NOW"])
    monkeypatch.setenv("TEST_NOW", "2026-12-31T00:00:00Z")

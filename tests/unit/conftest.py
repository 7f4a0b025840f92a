"""Fixtures of tests of the controller's code."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from gpuadmin.cli import main
from tests.support.sites import make_site

Cli = Callable[..., tuple[int, str, str]]

# times on a busy machine say nothing
settings.register_profile("gpuadmin", deadline=None, max_examples=60)
settings.load_profile("gpuadmin")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site with a storage host and two nodes, and nobody registered."""
    monkeypatch.delenv("GPUADMIN_SITE", raising=False)
    return make_site(tmp_path / "site")


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run the command line in this process: `cli("add-user", "minji")` gives exit code, stdout and stderr."""

    def go(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gpuadmin", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        captured = capsys.readouterr()
        assert isinstance(left.value.code, int)
        return int(left.value.code), captured.out, captured.err

    return go

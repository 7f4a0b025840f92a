"""Where the lab keeps its things, after the XDG base directory specification."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """Return the directory of base images; deleting it costs time, nothing else."""
    return _find_xdg_directory("XDG_CACHE_HOME", ".cache") / "gpuadmin" / "lab"


def state_directory() -> Path:
    """Return the directory that holds one directory per lab: disks, keys, sockets."""
    return _find_xdg_directory("XDG_STATE_HOME", ".local/state") / "gpuadmin" / "lab"


def guest_directory() -> Path:
    """Return the directory of the scripts and files that go into guests."""
    return Path(__file__).parent / "guest"


def _find_xdg_directory(variable: str, fallback: str) -> Path:
    value = os.environ.get(variable, "")
    # The specification says to ignore a relative path.
    return Path(value) if value.startswith("/") else Path.home() / fallback

"""adoption.json: what `adopt` saw of a site's hosts, beside the site's own files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuadmin.errors import ConfigError
from gpuadmin.reading import read_limited

DOCUMENT = "adoption.json"


def read_adoption(directory: Path) -> Mapping[str, Any]:
    """Given a site's directory, return its adoption.json; empty if there is none, or it is damaged."""
    try:
        found = json.loads(read_limited(directory / DOCUMENT))
    except (OSError, ValueError, ConfigError):
        return {}
    return found if isinstance(found, dict) else {}

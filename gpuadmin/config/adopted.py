"""adoption.json of a site, which adopt writes: what it saw of each host."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuadmin.errors import ConfigError
from gpuadmin.reading import is_absent, read_limited

DOCUMENT, FORMAT = "adoption.json", 1


def read_adoption(directory: Path) -> Mapping[str, Any]:
    """Return the document that adopt left in a site; one without hosts if there is none, empty if it is damaged."""
    path = directory / DOCUMENT
    try:
        # guard: what adopt saw, on a disk that is away, is not nothing -> not path.exists()
        if is_absent(path):
            return {"hosts": {}}
        found = json.loads(read_limited(path))
    except (OSError, ValueError, RecursionError, ConfigError):
        return {}
    return found if isinstance(found, dict) else {}

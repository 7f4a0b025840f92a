"""The code that hosts keep, as files below a directory."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.gpuadmin.node.plugins.plugin_utils.code_cache import code

PACKAGE = "ansible_collections.gpuadmin.node.plugins.module_utils"


def write_out(place: Path, *, takeover: bool = False) -> Path:
    """Given a directory, write all of it there, with the take-over's or without; return where cli.py is."""
    for path, text in json.loads(code(takeover).text).items():
        target = place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return place.joinpath(*PACKAGE.split("."))

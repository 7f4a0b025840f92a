"""JSON as it is printed and recorded."""

from __future__ import annotations

import json
import re
from typing import Any

from gpuadmin.common.text import UNSEEN

_UNSEEN = re.compile(f"[{UNSEEN}]")


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """A JSON document that keeps Hangul as it is, and holds nothing that a terminal obeys or an encoder refuses."""
    # guard: JSON holds nothing that a terminal obeys -> json.dumps(value, ensure_ascii=False, default=str)
    return _UNSEEN.sub(_json_escape, json.dumps(value, indent=indent, ensure_ascii=False, default=str))


def _json_escape(match: re.Match[str]) -> str:
    # the line feeds of the layout stay; json has escaped those of the data
    return match[0] if match[0] == "\n" else json.dumps(match[0])[1:-1] if ord(match[0]) > 0x7F else "\\u007f"

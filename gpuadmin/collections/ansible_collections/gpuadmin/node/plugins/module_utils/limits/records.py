"""What a node was told of limits, in its state: JSON, of one dataclass each."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import Any, TypeVar

from ..documents import parse
from ..errors import NodeError
from ..files import make_directory, read_bytes, write_atomic

T = TypeVar("T")


def load(kind: type[T], path: str) -> T | None:
    """Return what was recorded; None: nothing. Raises NodeError for a damaged record."""
    data = read_bytes(path)
    if data is None:
        return None
    try:
        return parse(kind, json.loads(data), path)
    except ValueError as error:
        raise NodeError(f"{path} is damaged: {error}") from None


def differs(path: str, value: Any | None) -> bool:
    """Whether another value than this dataclass is recorded; None: whether any is."""
    return read_bytes(path) != _text(value)


def record(path: str, value: Any | None) -> None:
    """Have this dataclass recorded; None: nothing. What is as it should be is not written again."""
    if not differs(path, value):
        return
    data = _text(value)
    if data is None:
        os.unlink(path)
    else:
        make_directory(os.path.dirname(path), 0o755)
        write_atomic(path, data, mode=0o644)


def _text(value: Any | None) -> bytes | None:
    return None if value is None else (json.dumps(asdict(value), indent=1) + "\n").encode()

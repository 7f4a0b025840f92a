"""Samples, each a name, labels and a number; and the text that a node's collector writes, which has them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """One number. `name` is empty if a query has computed it."""

    name: str
    labels: Mapping[str, str]
    value: float


_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def of_text(text: str, more: Mapping[str, str]) -> Iterator[Sample]:
    """Given metrics in Prometheus' text format, and labels to add, return the samples. Anything else is left out."""
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found is None or line.startswith("#"):
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        pairs = _LABEL.findall(found[2] or "")
        labels = {name: re.sub(r"\\.", lambda one: _ESCAPES.get(one[0], one[0]), raw) for name, raw in pairs}
        if math.isfinite(value):
            yield Sample(found[1], {**labels, **more}, value)


def by(samples: Iterable[Sample], *names: str) -> dict[tuple[str, ...], float]:
    """Given samples, return their numbers by these labels; of several of the same labels, the last."""
    return {tuple(one.labels.get(name, "") for name in names): one.value for one in samples}

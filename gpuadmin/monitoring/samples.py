"""What Prometheus answers, and the text that a node's collector writes: samples, each a name, labels and a number."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One number. `name` is empty where a query has computed it."""

    name: str
    labels: Mapping[str, str]
    value: float


def of_answer(document: Any) -> list[Sample]:
    """Given the JSON of an instant query, as Prometheus' HTTP API has it, return its
    samples; what is no number (NaN, infinite) is left out. Raises ValueError where it is no such answer.
    """
    try:
        if document["status"] != "success" or document["data"]["resultType"] != "vector":
            raise ValueError(f"an answer of another kind: {str(document.get('error') or document)[:200]}")
        return [_sample(entry) for entry in document["data"]["result"] if math.isfinite(float(entry["value"][1]))]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"an answer of another form: {error!r}") from None


def _sample(entry: Mapping[str, Any]) -> Sample:
    labels = {str(key): str(value) for key, value in entry["metric"].items()}
    return Sample(labels.pop("__name__", ""), labels, float(entry["value"][1]))


_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def of_text(text: str, more: Mapping[str, str]) -> Iterator[Sample]:
    """Given metrics in Prometheus' text format, and labels to add, give the samples. What is none is left out."""
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found is None or line.startswith("#"):
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        labels = {name: re.sub(r"\\.", _unescaped, raw) for name, raw in _LABEL.findall(found[2] or "")}
        if math.isfinite(value):
            yield Sample(found[1], {**labels, **more}, value)


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0], match[0])


def by(samples: Iterable[Sample], *names: str) -> dict[tuple[str, ...], float]:
    """Given samples, return their numbers by these labels; of several of the same labels, the last."""
    return {tuple(one.labels.get(name, "") for name in names): one.value for one in samples}

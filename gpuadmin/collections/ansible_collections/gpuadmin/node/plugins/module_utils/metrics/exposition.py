"""Samples as text for Prometheus (its exposition format), checked against the table: anything that is not in it is
our mistake."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from gpuadmin.common.metrics import BY_NAME

from ..fields import CONTROL

LONGEST_LABEL = 128  # characters of a label's value


class Samples:
    """Values, by metric and labels. The last one put for the same labels counts."""

    def __init__(self) -> None:
        self._values: dict[str, dict[tuple[str, ...], float]] = {}

    def put(self, name: str, value: float | None, /, **labels: object) -> None:
        """Put one; None is not known, and not written. Raises KeyError for a metric or label that the table lacks."""
        metric = BY_NAME[name]
        if set(labels) != set(metric.labels):
            raise KeyError(f"{name} has the labels {', '.join(metric.labels)}")
        if value is None or not math.isfinite(value):
            return
        key = tuple(plain(labels[label]) for label in metric.labels)
        self._values.setdefault(name, {})[key] = value

    def update(self, others: Samples) -> None:
        for name, values in others._values.items():
            self._values.setdefault(name, {}).update(values)

    def get(self, name: str, /, **labels: object) -> float | None:
        """The value put, or None."""
        return self._values.get(name, {}).get(tuple(plain(labels[label]) for label in BY_NAME[name].labels))

    def of(self, name: str) -> Mapping[tuple[str, ...], float]:
        """All values of a metric, by the values of its labels in the table's order."""
        return self._values.get(name, {})

    def render(self) -> str:
        """The text: each metric with its help and type, in the table's order."""
        return "".join(line + "\n" for line in self._lines())

    def _lines(self) -> Iterable[str]:
        for name, metric in BY_NAME.items():
            values = self._values.get(name)
            if not values:
                continue
            yield f"# HELP {name} {_escaped(metric.help, quotes=False)}"
            yield f"# TYPE {name} {metric.kind}"
            for key, value in sorted(values.items()):
                labels = ",".join(f'{label}="{_escaped(text)}"' for label, text in zip(metric.labels, key))
                yield f"{name}{'{' + labels + '}' if labels else ''} {_number(value)}"


def plain(value: object) -> str:
    """A label's value: one line of bounded length, without what a terminal obeys or nobody sees."""
    return CONTROL.sub("?", str(value))[:LONGEST_LABEL]


def _escaped(text: str, *, quotes: bool = True) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return (
        text.replace('"', '\\"')
        if quotes  # guard: a label's value stays one
        else text
    )


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))

"""The one client of Prometheus: a question over a connection that the caller has made, and what it answers."""

from __future__ import annotations

import http.client
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from .samples import Sample


@dataclass(frozen=True)
class Series:
    """What a query over time answers: labels, and moments (seconds since 1970) with numbers."""

    labels: Mapping[str, str]
    values: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Client:
    """`timeout`: seconds after which Prometheus ends a query itself. `largest`: bytes of an answer; 200 nodes of 8 GPUs
    are 5 million. All questions raise OSError and HTTPException where nobody answers, and ValueError for an invalid
    answer.
    """

    connection: http.client.HTTPConnection
    timeout: float
    largest: int

    def ask(self, query: str, at: float | None = None) -> list[Sample]:
        """What holds now, or held at a moment (seconds since 1970)."""
        moment = {} if at is None else {"time": f"{at:.0f}"}
        return of_answer(self._answer("query", {"query": query, **moment}))

    def over_time(self, query: str, begin: float, end: float, step: int) -> list[Series]:
        """What held from one moment to another (seconds since 1970), every `step` seconds."""
        span = {"query": query, "start": f"{begin:.0f}", "end": f"{end:.0f}", "step": str(step)}
        return _series(self._answer("query_range", span))

    def _answer(self, what: str, fields: Mapping[str, str]) -> Any:
        body = urlencode({**fields, "timeout": f"{self.timeout:.0f}s"})
        self.connection.request("POST", f"/api/v1/{what}", body, {"Content-Type": "application/x-www-form-urlencoded"})
        answer = self.connection.getresponse()
        raw = answer.read(self.largest + 1)
        if len(raw) > self.largest:
            raise ValueError(f"its answer has more than {self.largest >> 20} MiB")
        try:
            return json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"no JSON ({answer.status}): {error}") from None


def of_answer(document: Any) -> list[Sample]:
    """Given the JSON of an instant query, as Prometheus' HTTP API has it, return its samples; values that are not
    numbers (NaN, infinite) are left out. Raises ValueError if it is not such an answer.
    """
    try:
        entries = [(one, float(one["value"][1])) for one in _result(document, "vector")]
        return [
            Sample(str(one["metric"].get("__name__", "")), _labels(one), x) for one, x in entries if math.isfinite(x)
        ]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"an answer of another form: {error!r}") from None


def _series(document: Any) -> list[Series]:
    try:
        return [
            Series(_labels(one), tuple((float(t), float(x)) for t, x in one["values"] if math.isfinite(float(x))))
            for one in _result(document, "matrix")
        ]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"an answer of another form: {error!r}") from None


def _result(document: Any, kind: str) -> Any:
    if document["status"] != "success" or document["data"]["resultType"] != kind:
        raise ValueError(f"an answer of another kind: {str(document.get('error') or document)[:200]}")
    return document["data"]["result"]


def _labels(entry: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in entry["metric"].items() if key != "__name__"}

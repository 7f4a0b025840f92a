"""Bounds of a record's fields, beside their types: `Annotated[int, Within(0, 100)]`. Both parsers ask them.

Types of records are `Optional[int]` and not `int | None`: Python 3.9 evaluates them on hosts.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any

_END = 9000  # dates do not go much further
_NUMBER_NAME = re.compile(r"[0-9]{1,10}")


class Bound:
    """A condition on a value beyond its type. `find_problem` gets values of the right type alone."""

    def find_problem(self, value: Any) -> str | None:
        raise NotImplementedError

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return the bound for pydantic, which the controller alone has: the schema of the type, then this check."""
        check = {"type": "no-info", "function": self._check}
        return {"type": "function-after", "function": check, "schema": handler(source)}

    def _check(self, value: Any) -> Any:
        problem = self.find_problem(value)
        if problem is not None:
            raise ValueError(problem)
        return value


class Within(Bound):
    """A number from `low` on, below `end`."""

    def __init__(self, low: int, end: float) -> None:
        self.low, self.end = low, end

    def find_problem(self, value: float) -> str | None:
        return None if self.low <= value < self.end else f"is not from {self.low} on and below {self.end}"

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), "ge": self.low, "lt": self.end}


class Size(Bound):
    """A text of `least` to `most` characters; a list or a mapping of so many entries."""

    def __init__(self, most: int, least: int = 0) -> None:
        self.most, self.least = most, least

    def find_problem(self, value: Any) -> str | None:
        if len(value) < self.least:
            return f"has fewer than {self.least}"
        return None if len(value) <= self.most else f"has more than {self.most}"

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), "max_length": self.most, "min_length": self.least}


class Moment(Bound):
    """A text such as 2026-12-21T01:02:03Z, of a year that days can be added to."""

    def find_problem(self, value: str) -> str | None:
        try:
            then = datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ")
        except ValueError as error:  # it names the format
            return str(error)
        return None if 1970 <= then.year < _END else f"no backup is from the year {then.year}"


class Pattern(Bound):
    """A text that a regular expression matches as a whole. `what`: a word for such a text, with its article."""

    def __init__(self, pattern: str, what: str) -> None:
        self.pattern, self.what = re.compile(pattern), what

    def find_problem(self, value: str) -> str | None:
        return None if self.pattern.fullmatch(value) else f"is not {self.what}"


class Shown(Bound):
    """A text of at most `most` characters, without any that a terminal would obey; it may have lines."""

    def __init__(self, most: int) -> None:
        self.most = most

    def find_problem(self, value: str) -> str | None:
        # guard: a node shows nothing that a terminal obeys -> len(value) <= self.most
        fits = len(value) <= self.most and all(one == "\n" or one.isprintable() for one in value)
        return None if fits else f"must be at most {self.most} printable characters"


class UidNames(Bound):
    """A mapping whose names are uids."""

    def find_problem(self, value: dict[str, Any]) -> str | None:
        return next((f"{name[:40]!r} is not a uid" for name in value if not _NUMBER_NAME.fullmatch(name)), None)


#: Bytes are the largest counts. A file's size is what its owner says: twenty million sparse ones of 8 EiB are 2**87.
MOST = 2**100
Count = Annotated[int, Within(0, MOST)]  # guard: a count has bounds -> int
#: Seconds since 1970, up to the year 9999, which is as far as dates go.
When = Annotated[float, Within(0, 253_370_000_000)]  # guard: a time is one that dates can say -> float
Time = Annotated[int, Within(0, 253_370_000_000)]
Seconds = Annotated[float, Within(0, 1e9)]  # guard: a duration has bounds -> float
Stamp = Annotated[str, Moment()]
Day = Annotated[str, Pattern("[0-9]{4}-[0-9]{2}-[0-9]{2}", "a day")]
Words = dict[str, str]
Uids = Annotated[dict[str, str], UidNames()]
#: A number of 32 bits.
Uid = Annotated[int, Within(0, 2**32)]
Line = Annotated[str, Size(400)]
Lines = Annotated[list[Line], Size(100)]

"""Reading YAML: the parser in C, values as YAML 1.2 has them, and the line of each.

What is written goes through ruamel.yaml, which keeps comments and order (rewrite.py); a test holds the two together.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from gpuadmin.config.yamlvalues import YamlMistake, value_of

MOST_VALUES = 200_000  # in one file: more than ten thousand people have
MOST_BY_ALIAS = 10_000  # values that aliases may stand for, together: 400 bytes of them can stand for 10^9
DEEPEST = 50

_OPEN_QUOTE = "a quote is opened and not closed"
_NO_COLON = "has no `: ` between a field and its value"


class Fields(dict[Any, Any]):
    """A mapping, and the line of each of its keys, counted from 0."""

    __slots__ = ("lines",)

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[Any, int] = {}


class Items(list[Any]):
    """A sequence, the line of each of its items, counted from 0, and the line behind the last word of each."""

    __slots__ = ("block", "ends", "lines")

    def __init__(self, *, block: bool) -> None:
        super().__init__()
        self.lines: list[int] = []
        self.ends: list[int] = []
        self.block = block  # each item on lines of its own, behind a dash


def read_yaml(text: str) -> Any:
    """Given a text of one document, return what it holds, of Fields, Items and plain values; None if there is none.

    Raises YamlMistake.
    """
    reader = _Reader(text)
    try:
        return reader.document()
    except yaml.MarkedYAMLError as error:
        raise _mistake(error, text, reader.quote) from None
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1 if isinstance(error.position, int) else None
        raise YamlMistake(f"holds a character that no YAML file may hold ({error.reason})", line) from None
    except UnicodeEncodeError as error:  # half of a pair of surrogates
        raise YamlMistake("contains an invalid character", text.count("\n", 0, error.start) + 1) from None


class _Reader:
    def __init__(self, text: str) -> None:
        loader = getattr(yaml, "CLoader", yaml.Loader)  # a PyYAML that was built without libyaml is only slower
        self._events: Iterator[Any] = yaml.parse(text, Loader=loader)
        self._anchors: dict[str, tuple[Any, int]] = {}  # a value, and how many values it holds
        self._open: set[str] = set()  # anchors of what is not complete yet
        self._values = self._by_alias = 0
        self._last = 0  # the line behind the last word
        self.quote: tuple[int, int] | None = None  # the lines, from 0, of the last value if it has quotes

    def document(self) -> Any:
        data, seen = None, False
        for event in self._events:
            line = event.start_mark.line + 1
            if isinstance(event, DocumentStartEvent):
                if seen:
                    raise YamlMistake("begins a second document (---); only one is read", line)
                seen = True
                data = self._value(next(self._events), 0)
        return data

    def _value(self, event: Any, depth: int) -> Any:
        anchor, line, end = event.anchor, event.start_mark.line + 1, event.end_mark
        if isinstance(event, AliasEvent):
            return self._alias(anchor, event, line)
        before = self._values
        self._count(1, line)
        if depth > DEEPEST:
            raise YamlMistake(f"is nested too deeply: {DEEPEST} levels are enough", line)
        if anchor is not None:
            self._anchors.pop(anchor, None)
            self._open.add(anchor)
        if isinstance(event, ScalarEvent):
            value = value_of(event, line)
            self.quote = (line - 1, end.line) if event.style in ("'", '"') else None
            self._last = end.line + (1 if end.column else 0)
        elif isinstance(event, SequenceStartEvent):
            value = self._items(event, depth)
        else:
            assert isinstance(event, MappingStartEvent)
            value = self._fields(event, depth)
        if anchor is not None:
            self._open.discard(anchor)
            self._anchors[anchor] = (value, self._values - before)
        return value

    def _items(self, start: Any, depth: int) -> Items:
        items = Items(block=not start.flow_style)
        for event in self._events:
            if isinstance(event, SequenceEndEvent):
                break
            items.lines.append(event.start_mark.line)
            items.append(self._value(event, depth + 1))
            items.ends.append(self._last)
        if start.flow_style:
            self._last = event.end_mark.line + 1
        return items

    def _fields(self, start: Any, depth: int) -> Fields:
        fields, merged = Fields(), []
        for event in self._events:
            if isinstance(event, MappingEndEvent):
                break
            line = event.start_mark.line
            merges = isinstance(event, ScalarEvent) and event.value == "<<" and event.implicit[0]
            key = self._value(event, depth + 1)
            value = self._value(next(self._events), depth + 1)
            if merges:
                merged.append((value, line))
                continue
            if not isinstance(key, Hashable):
                raise YamlMistake("has a list or fields where the name of a field has to be", line + 1)
            if key in fields:
                raise YamlMistake(f"has the field {str(key)[:60]!r} twice; keep one of them", line + 1)
            fields[key] = value
            fields.lines[key] = line
        for value, line in merged:
            _merge(fields, value, line)
        if start.flow_style:
            self._last = event.end_mark.line + 1
        return fields

    def _alias(self, anchor: str, event: Any, line: int) -> Any:
        if anchor in self._open:  # guard: an alias does not stand in what it stands for
            raise YamlMistake(f"the alias *{anchor} is in the value that it stands for", line)
        if anchor not in self._anchors:
            raise YamlMistake(f"the alias *{anchor} stands for nothing: no &{anchor} is before it", line)
        value, weight = self._anchors[anchor]
        self._by_alias += weight
        if self._by_alias > MOST_BY_ALIAS:  # guard: aliases stand for a bounded number of values
            raise YamlMistake(f"its aliases (*) stand for more than {MOST_BY_ALIAS} values; write them out", line)
        self._count(weight, line)
        self._last = event.end_mark.line + 1
        return value

    def _count(self, more: int, line: int) -> None:
        self._values += more
        if self._values > MOST_VALUES:
            raise YamlMistake(f"it holds more than {MOST_VALUES} values; is it the right file?", line)


def _merge(fields: Fields, value: Any, line: int) -> None:
    """`<<: *x`: the fields of another mapping, or of several, that it does not have itself."""
    for other in value if isinstance(value, list) else [value]:
        if not isinstance(other, Fields):
            raise YamlMistake("`<<` takes the fields of another value: <<: *name", line + 1)
        for key, item in other.items():
            if key not in fields:
                fields[key] = item
                fields.lines[key] = line


#: What libyaml says, and how an admin would.
_WORDS = (
    (
        "found character that cannot start any token",
        "begins with a tab, or with one of @ ` %: put spaces there, or quotes around the text",
    ),
    ("tab character", "has a tab where spaces have to be"),
    (
        "mapping values are not allowed",
        "has a second `: ` in one line, or is indented too far; a text with `: ` is put into quotes",
    ),
    ("block sequence entries are not allowed", "has a list item (`- `) where none may be; look at the line before it"),
    (
        "did not find expected ',' or",
        "opens a bracket that is not closed, or a comma is missing in it before line {at}",
    ),
    ("did not find expected node content", "has a value missing, or a bracket or comma too many"),
    (
        "did not find expected key",
        "is not indented like the lines around it, or a quote or bracket is not closed",
    ),
    ("did not find expected '-' indicator", "is not indented like the items (`- `) around it"),
    ("could not find expected ':'", _NO_COLON),
    ("found unexpected end of stream", _OPEN_QUOTE),
    ("found unexpected document indicator", _OPEN_QUOTE),
    (
        "did not find expected <document start>",
        "belongs to nothing before it: it is indented less than the first line, or follows a closed bracket or quote",
    ),
    ("did not find expected alphabetic", "has `*` or `&` at the start of a text; put the text into quotes"),
    ("found unknown escape character", "has a backslash between double quotes; use single quotes"),
    ("found undefined tag handle", "begins with `!`, which is a tag in YAML; put the text into quotes"),
)
#: Of these, the place where it begins is meant, not where the parser gave up: that is lines below, or the file's end.
_FROM_ITS_BEGINNING = ("end of stream", "document indicator", "could not find expected ':'", "expected ',' or")


def _mistake(error: yaml.MarkedYAMLError, text: str, quote: tuple[int, int] | None) -> YamlMistake:
    """Given the parser's error, return what is wrong, and in which line. `quote`: the lines of the quotes before it."""
    problem, mark = error.problem or "", error.problem_mark or error.context_mark
    at = mark.line if mark else 0
    words = next((words for known, words in _WORDS if known in problem), problem or "cannot be read")
    line = at
    if error.context_mark and any(known in problem for known in _FROM_ITS_BEGINNING):
        line = error.context_mark.line
    elif quote is not None and quote[0] < quote[1] and quote[1] in (at, at - 1):
        line, words = quote[0], _OPEN_QUOTE  # it ended where the next one was opened
    elif "mapping values" in problem or "<document start>" in problem:
        lines = [(number, one) for number, one in enumerate(text.splitlines()[:at]) if _holds_something(one)]
        number, before = lines[-1] if lines else (at, ":")
        if not re.search(r":(\s|$)", before) and not before.lstrip().startswith(("- ", "{", "[", "#")):
            line, words = number, _NO_COLON  # the parser takes it and the next line for one text
    if _below_nothing(text.splitlines(), at):
        line, words = (
            at,
            "follows a field that is closed with `[]` or `{{}}`, which means that it is empty: remove these brackets",
        )
    return YamlMistake(words.format(at=at + 1), line + 1 if mark else None)


def _below_nothing(lines: list[str], at: int) -> bool:
    """Whether a line belongs to one before it that says that it is empty: an entry below `users: []`."""
    above = [one for one in lines[:at] if _holds_something(one)]
    if not above or at >= len(lines) or not re.search(r":\s*(\[\]|\{\})\s*(#.*)?$", above[-1]):
        return False
    own, before = (len(one) - len(one.lstrip()) for one in (lines[at], above[-1]))
    return own > before or (own == before and lines[at].lstrip().startswith("- "))


def _holds_something(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")

"""Mistakes of a text that is no YAML, in an admin's words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import yaml

_OPEN_QUOTE = "a quote is opened and not closed"
_NO_COLON = "has no `: ` between a field and its value"


class YamlMistake(Exception):
    """A mistake of a text, as a sentence's end, and its line, counted from 1; None if it is not known."""

    def __init__(self, problem: str, line: int | None) -> None:
        super().__init__(problem)
        self.problem, self.line = problem, line


#: Words of libyaml, and an admin's words for the same.
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
    (
        "found undefined alias",
        "has an alias (*) that stands for nothing: no & of that name is before it; put a text with `*` into quotes",
    ),
    ("second occurrence", "has the name of another value behind its `&`; give each a name of its own"),
    ("found another document", "begins a second document (---); only one is read"),
    ("found undefined tag handle", "begins with `!`, which is a tag in YAML; put the text into quotes"),
)
#: Errors whose beginning is the mistake: the parser gives up lines below, or at the file's end.
_FROM_ITS_BEGINNING = ("end of stream", "document indicator", "could not find expected ':'", "expected ',' or")


def in_words(error: yaml.MarkedYAMLError, text: str) -> YamlMistake:
    """Given the parser's error and the text that it read, return what is wrong, and in which line."""
    problem, mark, quote = error.problem or "", error.problem_mark or error.context_mark, _last_quote(text)
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


def _last_quote(text: str) -> tuple[int, int] | None:
    """The lines, from 0, of the last value that the parser took before its error, if that has quotes."""
    found = None
    events: Iterator[Any] = yaml.parse(text, Loader=getattr(yaml, "CLoader", yaml.Loader))
    with suppress(yaml.YAMLError):
        for event in events:
            if hasattr(event, "style"):  # a scalar
                found = (event.start_mark.line, event.end_mark.line) if event.style in ("'", '"') else None
        return None  # the parser took all: it is what it says together that is wrong
    return found


def _below_nothing(lines: list[str], at: int) -> bool:
    """Whether a line belongs to one before it that says that it is empty: an entry below `users: []`."""
    above = [one for one in lines[:at] if _holds_something(one)]
    if not above or at >= len(lines) or not re.search(r":\s*(\[\]|\{\})\s*(#.*)?$", above[-1]):
        return False
    own, before = (len(one) - len(one.lstrip()) for one in (lines[at], above[-1]))
    return own > before or (own == before and lines[at].lstrip().startswith("- "))


def _holds_something(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")

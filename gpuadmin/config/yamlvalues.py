"""What a value in YAML means: YAML 1.2, and dates."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

LONGEST_NUMBER = 100  # digits

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_INT = re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]+|[0-9_]+|0x[0-9a-fA-F_]+)")
_FLOAT = re.compile(
    r"[-+]?(\._*[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)(?:[Tt]|[ \t]+)(\d\d?):(\d\d):(\d\d)(?:\.(\d*))?(?:[ \t]*(Z|([-+])(\d\d?)(?::?(\d\d))?))?",
    re.ASCII,
)


class YamlMistake(Exception):
    """What is wrong with a text, as a sentence's end, and the line, counted from 1; None if it is not known."""

    def __init__(self, problem: str, line: int | None) -> None:
        super().__init__(problem)
        self.problem, self.line = problem, line


_TAG = "tag:yaml.org,2002:"


def value_of(event: Any, line: int) -> Any:
    text, tag = event.value, event.tag
    if tag is not None and tag != "!":
        return _tagged(text, tag, line)
    if tag == "!" or not event.implicit[0]:  # quoted, or a text of several lines
        return text
    return _plain(text, line)


def _plain(text: str, line: int) -> Any:
    """Given what is in a file without quotes, return the value that it means: YAML 1.2.2, 10.3.2, and dates."""
    value: Any = text
    if text in _NULL:
        value = None
    elif text in _BOOL:
        value = _BOOL[text]
    elif text[0] not in "-+.0123456789":
        pass  # most values: no number begins so
    elif _INT.fullmatch(text) and any(character.isdigit() for character in text):
        value = _int(text, line)
    elif _FLOAT.fullmatch(text):
        value = _float(text)
    else:
        value = _day(text)
    return value


def _day(text: str) -> Any:
    """A day or a time, if a text is one. What only looks like one (2027-02-30) is a text: its field refuses it,
    together with what else is wrong in the file.
    """
    day, time = _DAY.fullmatch(text), _TIME.fullmatch(text)
    try:
        if day is not None:
            return date(*(int(part) for part in day.groups()))
        return text if time is None else _time(time)
    except (ValueError, OverflowError):
        return text


def _int(text: str, line: int) -> int | str:
    digits = text.replace("_", "")
    if len(digits) > LONGEST_NUMBER:
        raise YamlMistake(f"holds a number of {len(digits)} digits; a text is put into quotes", line)
    sign, digits = (-1 if digits[0] == "-" else 1), digits.lstrip("-+")
    for prefix, base in (("0b", 2), ("0o", 8), ("0x", 16)):
        if digits.startswith(prefix):
            return sign * int(digits[2:], base) if digits[2:] else text
    return sign * int(digits)


def _float(text: str) -> float:
    plain = text.replace("_", "").lower()
    if plain.endswith((".inf", ".nan")):
        return math.nan if plain.endswith("nan") else -math.inf if plain[0] == "-" else math.inf
    return float(plain)


def _time(match: re.Match[str]) -> datetime:
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction = int(((match[7] or "") + "000000")[:6])
    zone = None
    if match[8] == "Z":
        zone = UTC
    elif match[8]:
        ahead = timedelta(hours=int(match[10]), minutes=int(match[11] or 0))
        zone = timezone(-ahead if match[9] == "-" else ahead)
    return datetime(year, month, day, hour, minute, second, fraction, zone)


def _tagged(text: str, tag: str, line: int) -> Any:
    """A value whose kind is written before it, such as `!!str 1`. Another program's tag means nothing here."""
    kind = tag.removeprefix(_TAG)
    if kind in ("str", tag):
        return text
    value = _plain(text, line) if text else None
    fits = {"int": int, "float": int | float, "bool": bool, "null": type(None), "timestamp": date}.get(kind)
    if fits is None or not isinstance(value, fits):
        raise YamlMistake(f"{text[:40]!r} is no {kind[:40]}, as the tag before it says; leave the tag out", line)
    return value

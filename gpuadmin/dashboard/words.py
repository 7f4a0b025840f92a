"""Numbers, times and foreign names as the pages show them."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Mapping

from ..common.text import clock

_LONGEST = 200  # characters of a name; a container's may have more
_UNITS: Mapping[str, tuple[str, ...]] = {"en": ("s", "min", "h", "d"), "ko": ("초", "분", "시간", "일")}


def name(text: str) -> str:
    """A name that somebody chose, so that one sees what is in it: what is invisible or turns text around is written
    as U+202E, and what is too long ends in an ellipsis.
    """
    visible = "".join(
        f"U+{ord(one):04X}"
        if unicodedata.category(one)[0] in "CZ" and one != " "  # guard: text that turns around is written out
        else one
        for one in text
    )
    return visible if len(visible) <= _LONGEST else visible[: _LONGEST - 1] + "…"


def age(seconds: float, language: str = "en") -> str:
    """Seconds as people read them at a glance: `3 min`, `5 h`, `2 d`; in Korean `3분`."""
    gap = "" if language == "ko" else " "
    *units, days = _UNITS[language]
    for unit, (span, most) in zip(units, ((1, 60), (60, 120), (3600, 48))):
        if round(seconds / span) < most:  # as it is shown: never `60 s` or `120 min`
            return f"{max(seconds, 0) / span:.0f}{gap}{unit}"
    return f"{seconds / 86400:.0f}{gap}{days}"


def percent(ratio: float | None) -> str:
    """`73 %`; a dash where it is not known."""
    return "–" if ratio is None else f"{min(max(ratio, 0.0), 1.0):.0%}".replace("%", " %")


def number(value: float | None, digits: int = 0) -> str:
    """A number, or a dash where it is not known."""
    return "–" if value is None else f"{value:.{digits}f}"


def gib(count: float | None) -> str:
    """Bytes of memory as GiB, as memory is sold; a dash where it is not known."""
    if count is None:
        return "–"
    value = count / 1024**3
    return f"{value:.0f}" if value >= 9.95 or value == 0 else f"{value:.1f}"


def moment(when: float | None) -> str:
    """A moment as this host's clock has it: `2026-11-23 16:40`; a dash where it is not known, or can be none."""
    return "–" if when is None or not _is_possible(when) else clock(when)


def iso(when: float) -> str:
    """A moment for programs, in UTC; one that can be none is the beginning of time."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when if _is_possible(when) else 0))


def _is_possible(when: float) -> bool:
    """Whether a time that a node says is one: up to the year 9999."""
    return 0 <= when < 253_370_000_000

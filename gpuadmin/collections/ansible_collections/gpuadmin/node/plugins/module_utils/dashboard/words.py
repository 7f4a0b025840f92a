"""Numbers, times and foreign names as the pages show them."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Mapping

_LONGEST = 200  # characters of a name; a container's may have more
_UNITS: Mapping[str, tuple[str, ...]] = {"en": ("d", "h", "min", "s"), "ko": ("일", "시간", "분", "초")}


def name(text: str) -> str:
    """A name that somebody chose, so that one sees what is in it: what is invisible or turns text around is written
    as U+202E, and what is too long ends in an ellipsis.
    """
    visible = "".join(
        f"U+{ord(one):04X}" if unicodedata.category(one)[0] in "CZ" and one != " " else one for one in text
    )
    return visible if len(visible) <= _LONGEST else visible[: _LONGEST - 1] + "…"


def age(seconds: float, language: str = "en") -> str:
    """Seconds as people read them at a glance: `3 min`, `5 h`, `2 d`; in Korean `3분`."""
    units = _UNITS[language]
    gap = "" if language == "ko" else " "
    for unit, span in zip(units, (86400, 3600, 60)):
        if seconds >= (60 if span == 60 else 2 * span):
            return f"{seconds / span:.0f}{gap}{unit}"
    return f"{max(seconds, 0):.0f}{gap}{units[3]}"


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
    """A moment as this host's clock has it: `2026-11-23 16:40`."""
    return "–" if when is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(when))


def iso(when: float) -> str:
    """A moment for programs, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))

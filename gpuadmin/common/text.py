"""Text: numbers as people read them, and the characters that nobody reads."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

# What a terminal obeys, or what nobody sees: C0 and C1 controls, format characters (Cf: bidirectional overrides, zero
# width), surrogates, line and paragraph separators, and what Unicode wants ignored where it cannot be shown (fillers,
# variation selectors). A test holds it against unicodedata, whose tables are too slow to be walked at every start.
UNSEEN = (
    "\\x00-\\x1f\\x7f-\\x9f\\xad\\u034f\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u115f\\u1160\\u17b4\\u17b5"
    "\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ud800-\\udfff\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb"
    "\\U000110bd\\U000110cd\\U00013430-\\U0001343f\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a\\U000e0000-\\U000e0fff"
)


def counted(count: int, one: str, many: str | None = None) -> str:
    """Given a number and the word for one, return both as people write them: `1 home`, `2 homes`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def size_words(count: float) -> str:
    """Bytes as people read them, as disks and networks are sold: 1 kB is 1000 bytes."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 999.95:
            return counted(round(count), "byte") if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def clock(seconds: float) -> str:
    """Given seconds since the epoch, return the time by this machine's clock: `2026-11-26 09:00`."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def listed(names: Sequence[str], most: int = 10) -> str:
    """Given names, return the first of them and how many more there are: `minji, jiho and 4998 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def name_unit(path: str) -> str:
    """Given a plain path, return what systemd calls its unit, without suffix: `/data/a-b` is `data-a\\x2db`."""
    return path.strip("/").replace("-", "\\x2d").replace("/", "-")


def the_page(name: str) -> str:
    """How people are told of a page of docs/, which is not installed with gpuadmin."""
    return f'the page "{name}" of gpuadmin\'s documentation'


def language(environment: Mapping[str, str]) -> str:
    """`ko` or `en`: what somebody reads, by their locale (locale(7)) where the site speaks it; otherwise the first that
    it speaks. GPUADMIN_LANGUAGES, which programs of nodes set, has the site's: `ko en`."""
    said = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := environment.get(name))), "")
    spoken = [one for one in environment.get("GPUADMIN_LANGUAGES", "").split() if one in ("en", "ko")] or ["en", "ko"]
    return next((one for one in spoken if said.startswith(one)), spoken[0])


def as_fields(value: object) -> Mapping[str, Any]:
    """A value of a record that somebody may have edited, as fields; none where it is something else."""
    return value if isinstance(value, Mapping) else {}

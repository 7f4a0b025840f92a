"""Foreign text as a terminal can be given it."""

from __future__ import annotations

import re

from gpuadmin.common.text import UNSEEN

_UNSEEN = re.compile(f"[{UNSEEN}]")


def visible(text: str) -> str:
    """Given any text, return it as a terminal can be given it: what is not printable becomes `\\x1b` or `U+202E`.

    Line feeds stay, a tab is four spaces.
    """
    return _UNSEEN.sub(_escape, text)  # guard: a text is shown without what a terminal obeys -> text


def one_line(text: str) -> str:
    """The same, and line feeds become `\\n`: whoever chose a name or a message makes no further line of output."""
    return visible(text).replace("\n", "\\n")


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character == "\n":
        return character
    if character == "\t":
        return "    "
    return f"\\x{ord(character):02x}" if ord(character) < 0x100 else f"U+{ord(character):04X}"


def korean_term(name: str) -> str:
    """A term's name in a Korean sentence: `2026-2학기`, `여름 학기`, and `2026년 2학기` as it is."""
    return name if name.endswith("학기") else f"{name}학기" if name[-1:].isdigit() else f"{name} 학기"

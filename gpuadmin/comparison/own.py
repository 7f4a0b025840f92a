"""What is meant to differ: a host's own name and addresses, and identifiers that are nobody else's."""

from __future__ import annotations

import re
from collections.abc import Iterable

_UUID = re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b")
_MAC = re.compile(r"\b[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}\b")
_MACHINE_ID = re.compile(r"\b[0-9a-f]{32}\b")
_VOLUME = re.compile(r"\b(?:UUID|PARTUUID)=[0-9a-fA-F-]{4,36}")  # a FAT's is short
_LONGEST_NAME = 255


class Own:
    """The names and addresses of one host, as it and the inventory say them."""

    def __init__(self, names: Iterable[str], addresses: Iterable[str]) -> None:
        self._names = _make_word_pattern(names, r"[\w.-]")
        self._addresses = _make_word_pattern(addresses, r"[\w.:]")

    def plain(self, text: str) -> str:
        """The text as another host would have it."""
        for pattern, word in (
            (_VOLUME, "UUID=…"), (_UUID, "<uuid>"), (_MAC, "<mac>"), (_MACHINE_ID, "<id>"),
            (self._names, "<host>"), (self._addresses, "<address>"),
        ):  # fmt: skip
            if pattern is not None:
                text = pattern.sub(word, text)
        return text


def _make_word_pattern(words: Iterable[str], inside: str) -> re.Pattern[str] | None:
    """A pattern of whole words, the longest first; `inside`: what continues one. None for no words."""
    known = sorted({one for one in words if 0 < len(one) <= _LONGEST_NAME}, key=lambda one: (-len(one), one))
    if not known:
        return None
    # a letter or a digit continues the name of a host, but not the dot that ends a sentence
    return re.compile(rf"(?<!{inside})(?:{'|'.join(map(re.escape, known))})(?![\w-])")

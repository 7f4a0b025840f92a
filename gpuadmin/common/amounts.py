"""Amounts of what a node has: a share (`80%`), a size (`64G`) or a number; and what they are on one node."""

from __future__ import annotations

import re
from typing import Any

UNLIMITED, NONE = "unlimited", "0"
_UNITS = {"M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_PERCENT = re.compile(r"([1-9][0-9]?|100)%")
_SIZE = re.compile(r"([1-9][0-9]{0,6})([MGT])")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
#: Of disks, as they are sold and as people are told what they have (text.size_words).
_DISK_UNITS = {"M": 10**6, "G": 10**9, "T": 10**12}
LEAST_DISK = 100 * 10**6
#: With less nobody can log in: a shell, the user manager, and what they start.
LEAST_MEMORY, LEAST_TASKS = 128 << 20, 64
#: Percent of a disk.
MOST_RESERVED = 50


def _text(value: Any) -> str:
    return str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else repr(value)


def _show(value: Any) -> str:
    return repr(value)[:40]


def ask_for_memory(value: Any) -> Any:
    """Given what somebody wrote, return it if it is an amount of memory. Raises ValueError with what would be right."""
    text = _text(value)
    size = _SIZE.fullmatch(text)
    if size and int(size[1]) * _UNITS[size[2]] < LEAST_MEMORY:
        raise ValueError(f"{_show(value)} is too little to log in with; give {LEAST_MEMORY >> 20}M or more")
    return _checked(value, text, size, "80% (of the node's memory), or a size such as 64G (units: M, G, T)")


def ask_for_swap(value: Any) -> Any:
    """The same for swap."""
    text = _text(value)
    size = text == "0" or _SIZE.fullmatch(text)
    return _checked(value, text, size, "50% (of the node's swap), 0, or a size such as 8G")


def ask_for_tasks(value: Any) -> Any:
    """The same for processes and threads."""
    text = _text(value)
    number = _NUMBER.fullmatch(text)
    if number and int(text) < LEAST_TASKS:
        raise ValueError(f"{_show(value)} is too little to log in with; give {LEAST_TASKS} or more")
    return _checked(value, text, number, "10% (of what the node can have), or a number such as 4096")


def ask_for_processors(value: Any) -> Any:
    """The same for processors."""
    text = _text(value)
    return _checked(value, text, _NUMBER.fullmatch(text) and text != "0", "50% (of the node's), or a number such as 16")


def ask_for_reserve(value: Any) -> Any:
    """The same for what is kept of a disk. People get half of it at least."""
    text = _text(value)
    percent = _PERCENT.fullmatch(text)
    if not (percent or text == NONE or _SIZE.fullmatch(text)):
        raise ValueError(f"{_show(value)} is not an amount; write 5% of the disk, a size such as 50G, or 0 for nothing")
    if percent and int(percent[1]) > MOST_RESERVED:
        raise ValueError(f"{_show(value)} leaves people less than half of the disk; give {MOST_RESERVED}% or less")
    return text


def ask_for_disk(value: Any) -> Any:
    """The same for what one person may have on a disk: a size alone, since it is told to people as a number of GB."""
    text = _text(value)
    try:
        amount = disk_amount(text)
    except ValueError:
        raise ValueError(f"{_show(value)} is not an amount; write a size such as 500G, or {UNLIMITED}") from None
    if amount is not None and amount < LEAST_DISK:
        raise ValueError(f"{_show(value)} is too little to work with; give {LEAST_DISK // 10**6}M or more")
    return text


def disk_amount(text: str) -> int | None:
    """Bytes that one person may have on a disk; None: as much as there is. Raises ValueError for what is not a size."""
    if text == UNLIMITED:
        return None
    size = _SIZE.fullmatch(text)
    if size is None:
        raise ValueError(f"{text[:40]!r} is not a size")
    return int(size[1]) * _DISK_UNITS[size[2]]


def _checked(value: Any, text: str, other: object, right: str) -> str:
    # guard: an amount that nobody understands is refused
    if not (other or text == UNLIMITED or _PERCENT.fullmatch(text)):
        raise ValueError(f"{_show(value)} is not an amount; write {right}, or {UNLIMITED}")
    return text


def compute_amount(text: str, whole: int) -> int | None:
    """Given an amount and how much the node has, return how much it is; None: as much as there is.

    ``whole`` and what is returned: bytes, or a number. Raises ValueError for what is not an amount.
    """
    if text == UNLIMITED:
        return None
    if (percent := _PERCENT.fullmatch(text)) is not None:
        return whole * int(percent[1]) // 100
    if (size := _SIZE.fullmatch(text)) is not None:
        return int(size[1]) * _UNITS[size[2]]
    if _NUMBER.fullmatch(text):
        return int(text)
    raise ValueError(f"{text[:40]!r} is not an amount")

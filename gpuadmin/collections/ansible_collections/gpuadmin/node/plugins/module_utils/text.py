"""Numbers as people read them: as the controller's gpuadmin/text.py, which a node does not have."""

from __future__ import annotations

from collections.abc import Sequence


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


def listed(names: Sequence[str], most: int = 10) -> str:
    """Given names, return the first of them and how many more there are: `minji, jiho and 4998 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")

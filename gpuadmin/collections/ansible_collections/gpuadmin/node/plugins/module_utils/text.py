"""Numbers as people read them: as the controller's gpuadmin/text.py, which a node does not have."""

from __future__ import annotations


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

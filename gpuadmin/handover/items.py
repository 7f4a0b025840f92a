"""A line of the list: what the next admin needs, where it is, and the command that settles it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

IN_ORDER, MISSING, YOURS, UNKNOWN = "in order", "missing", "only yours", "unknown"


@dataclass(frozen=True)
class Item:
    """`where`: a file, host or setting. `words`: what is known of it, never a secret. `command`: what settles it."""

    what: str
    where: str
    state: str
    words: str
    command: str = ""

    def document(self) -> dict[str, str]:
        return asdict(self)

"""What people read when they log in, for as long as it holds. The controller says what, the node shows and removes it.

The node does the latter by itself, every few minutes and at boot: nobody has to be there when an announcement is over.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ..errors import NodeError
from ..files import read_bytes, write_atomic
from ..paths import STATE

FILE = "announcements.json"
MOTD = "/run/motd.d/gpuadmin-announcements"
MOST, LONGEST = 50, 8000  # announcements, characters of each


@dataclass(frozen=True)
class Announcement:
    """A text that holds from one moment to another, in seconds since the epoch."""

    id: str
    begin: int
    end: int
    text: str


def parse(entries: object) -> list[Announcement]:
    """Check what came from the controller, or from the file. Raises NodeError."""
    if not isinstance(entries, list) or len(entries) > MOST:
        raise NodeError(f"announcements must be a list of at most {MOST}")
    found = []
    for entry in entries:
        fields = entry if isinstance(entry, Mapping) else {}
        name, begin, end, text = (fields.get(key) for key in ("id", "begin", "end", "text"))
        if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9-]{1,40}", name):
            raise NodeError(f"an announcement has no usable id: {str(name)[:60]!r}")
        if not all(isinstance(one, int) and not isinstance(one, bool) for one in (begin, end)):
            raise NodeError(f"announcement {name}: begin and end must be seconds since the epoch")
        if not isinstance(text, str) or len(text) > LONGEST or not all(_fits(one) for one in text):
            raise NodeError(f"announcement {name}: must be at most {LONGEST} printable characters")
        found.append(Announcement(name, int(str(begin)), int(str(end)), text))
    return found


def _fits(character: str) -> bool:
    """Nothing that a terminal would obey."""
    return character == "\n" or character.isprintable()  # guard: a node shows nothing that a terminal obeys -> True


def converge(
    wanted: Sequence[Announcement], *, check: bool, directory: str = STATE, motd: str = MOTD, now: float | None = None
) -> list[str]:
    """Have these announcements and no others on this host. Returns what is done, or in a check would be."""
    path = os.path.join(directory, FILE)
    try:
        before = {one.id: one for one in load(path)}
    except NodeError:
        before = {}  # a damaged file is replaced
    after = {one.id: one for one in wanted}
    operations = [f"announce {name}" for name, one in after.items() if before.get(name) != one]
    operations += [f"take announcement {name} back" for name in before if name not in after]
    data = (json.dumps([asdict(one) for one in after.values()], ensure_ascii=False, indent=1) + "\n").encode()
    if not operations and read_bytes(path) not in (data, None):
        operations = ["write the announcements again"]
    if not check:
        if operations:
            write_atomic(path, data, mode=0o644)
        show(wanted, motd=motd, now=now)
    return operations


def load(path: str) -> list[Announcement]:
    """The announcements of a host's file; none where there is no file. Raises NodeError if it cannot be read."""
    raw = read_bytes(path)
    if raw is None:
        return []
    try:
        return parse(json.loads(raw))
    except ValueError as error:
        raise NodeError(f"{path} is damaged: {error}") from None


def show(found: Sequence[Announcement], *, motd: str = MOTD, now: float | None = None) -> None:
    """Write those that hold now where pam_motd(8) reads; remove the file where none does."""
    moment = time.time() if now is None else now
    current = [
        one
        for one in found
        if one.begin <= moment < one.end  # guard: an announcement that is over is not shown -> one.begin <= moment
    ]
    if not current:
        if os.path.lexists(motd):
            os.unlink(motd)
        return
    data = "".join(f"\n{one.text.strip()}\n" for one in current).encode()
    os.makedirs(os.path.dirname(motd), mode=0o755, exist_ok=True)
    if not os.path.exists(motd) or read_bytes(motd) != data:
        write_atomic(motd, data, mode=0o644)


def main(directory: str = STATE, motd: str = MOTD) -> int:
    """Show what holds now. Exit 0. Raises NodeError if the file is damaged; nothing out of date is left then."""
    try:
        found = load(os.path.join(directory, FILE))
    except NodeError:
        show([], motd=motd)
        raise
    show(found, motd=motd)
    return 0

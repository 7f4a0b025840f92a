"""What people read when they log in, for as long as it holds. The controller says what, the node shows and removes it.

The node does the latter by itself, every few minutes and at boot: nobody has to be there when an announcement is over.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict

from gpuadmin.common.records.hosts import Announcement

from ..documents import parse
from ..errors import NodeError
from ..files import read_bytes, write_atomic
from ..paths import STATE

FILE = "announcements.json"
MOTD = "/run/motd.d/gpuadmin-announcements"


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
        return [parse(Announcement, one, path) for one in json.loads(raw)]
    except (ValueError, TypeError) as error:
        raise NodeError(f"{path} is damaged: {error}") from None


def find_window(state: str, begin: int, until: int) -> int:
    """When something that begins then has to end: at the next window, if it would run into one; else ``until``."""
    try:
        windows = [one for one in load(os.path.join(state, FILE)) if one.closed_until]
    except (NodeError, OSError):
        return until  # what is not known takes nobody's GPU
    # guard: no grant runs into a window -> until
    return min([max(one.closed_from, begin) for one in windows if one.closed_from < until and begin < one.closed_until],
               default=until)  # fmt: skip


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

"""Grants: who may use which GPU of this host until when. A file each, written whole; an admin or a scheduler decides.

A file that is damaged, or whose time is over, opens nothing. One that is over is deleted: no clock that is put back
makes it hold again.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from ..documents import parse
from ..errors import NodeError, in_words
from ..files import make_directory, read_bytes, sync_directory, write_atomic
from ..paths import STATE

DIRECTORY = "gpu-grants"
LONGEST = 200  # characters of a reason
_ID = re.compile(r"[a-z0-9-]{1,40}\Z")
_GPU = re.compile(r"[A-Za-z0-9-]{1,80}\Z")


@dataclass(frozen=True)
class Grant:
    """``gpus``: as devices.py names them. ``begin`` and ``until``: seconds since 1970. ``source``: who decides it."""

    id: str
    user: str
    uid: int
    gpus: Sequence[str]
    begin: int
    until: int
    who: str
    reason: str = ""
    source: str = "admin"

    def holds(self, now: float) -> bool:
        """Whether it is in force. Before its beginning it is not: the clock was put back."""
        # guard: a grant whose time is over opens nothing -> self.begin <= now
        return self.begin <= now < self.until


def checked(grant: Grant) -> Grant:
    """Raises NodeError where a grant is not one that can be written."""
    if not _ID.match(grant.id):
        raise NodeError(f"a grant has no usable id: {grant.id[:60]!r}")
    if not grant.gpus or not all(_GPU.match(one) for one in grant.gpus):
        raise NodeError(f"grant {grant.id}: it names no GPU, or one that no GPU is called")
    if grant.uid <= 0:  # guard: root is granted nothing
        raise NodeError(f"grant {grant.id}: uid {grant.uid} is nobody's who needs a grant")
    if grant.begin >= grant.until:
        raise NodeError(f"grant {grant.id}: it ends before it begins")
    for text in (grant.reason, grant.who, grant.user, grant.source):
        if len(text) > LONGEST or not text.isprintable():
            raise NodeError(f"grant {grant.id}: a text must have at most {LONGEST} printable characters")
    return grant


def read(state: str = STATE) -> tuple[list[Grant], list[str]]:
    """All grants that are recorded, and what is wrong with files that open nothing."""
    found, problems = [], []
    for path in sorted(glob.glob(os.path.join(glob.escape(state), DIRECTORY, "*.json"))):
        try:
            grant = checked(parse(Grant, json.loads(read_bytes(path) or b""), path))
            if os.path.basename(path) != f"{grant.id}.json":
                raise NodeError(f"{path} has the grant {grant.id}")
            found.append(grant)
        # guard: a damaged grant opens nothing, and stops no other
        except (NodeError, OSError, ValueError) as error:
            problems.append(
                f"{path} opens nothing: {in_words(error) if isinstance(error, (NodeError, OSError)) else error}"
            )
    return found, problems


def write(grant: Grant, state: str = STATE) -> None:
    """Record a grant, durably."""
    directory = os.path.join(state, DIRECTORY)
    make_directory(directory, 0o755)
    data = json.dumps(asdict(checked(grant)), ensure_ascii=False, indent=1) + "\n"
    write_atomic(os.path.join(directory, f"{grant.id}.json"), data.encode(), mode=0o644)


def delete(names: Iterable[str], state: str = STATE) -> None:
    """Forget these grants, durably. One that is not there is no error."""
    directory, gone = os.path.join(state, DIRECTORY), False
    for name in names:
        try:
            os.unlink(os.path.join(directory, f"{name}.json"))
            gone = True
        except FileNotFoundError:
            pass
    if gone:
        sync_directory(directory)


def by_uid(grants: Iterable[Grant], now: float) -> dict[int, list[str]]:
    """What each person may use now: the union of their grants, in order."""
    found: dict[int, set[str]] = {}
    for one in grants:
        if one.holds(now):
            found.setdefault(one.uid, set()).update(one.gpus)
    return {uid: sorted(gpus) for uid, gpus in sorted(found.items())}


def choose(wanted: Sequence[str] | int, there: Iterable[str], others: Iterable[Grant], now: float) -> list[str]:
    """The GPUs of a new grant: those that are named, or so many that nobody was granted. Raises NodeError.

    A GPU is granted to one at a time.
    """
    taken = {gpu: one for one in others if now < one.until for gpu in one.gpus}
    known = list(there)
    if isinstance(wanted, int):
        free = [one for one in known if one not in taken]
        if len(free) < wanted:
            raise NodeError(f"{wanted} of {len(known)} GPUs were asked for, and {len(free)} are not granted to anybody")
        return free[:wanted]
    for one in wanted:
        if one not in known:
            raise NodeError(f"there is no GPU {one[:80]}; there are: {', '.join(known) or 'none'}")
        if one in taken:  # guard: what somebody was granted is not another's
            raise NodeError(f"GPU {one} is granted to {taken[one].user} (grant {taken[one].id})")
    return list(wanted)

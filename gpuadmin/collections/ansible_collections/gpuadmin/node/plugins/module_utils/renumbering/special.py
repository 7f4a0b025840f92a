"""What an inode loses when its owner changes: written down before, so that a run after a cut gives it back.

The kernel takes setuid bits and capabilities from what changes hands, and immutable files do not change hands at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Special:
    """``path`` within its tree, as os.fsdecode has it. ``owners``: uid, gid before and after. The rest is what it is to
    have then: ``mode`` (-1: whatever it has), ``capability`` in hex, ``flags`` of chattr that were lifted.

    ``size`` and ``written`` (nanoseconds since 1970): what was in it has changed if they have.
    """

    phase: int
    tree: str
    path: str
    inode: int
    owners: tuple[tuple[int, int], tuple[int, int]]
    mode: int = -1
    capability: str = ""
    flags: int = 0
    size: int = -1
    written: int = -1

    def is_unchanged(self, facts: os.stat_result) -> bool:
        """Whether it still has what it had in it."""
        return (facts.st_size, facts.st_mtime_ns) == (self.size, self.written)

    def is_of(self, facts: os.stat_result) -> bool:
        """Whether it is still the same thing, of the same owner."""
        # guard: nobody gets a setuid bit that was another file's
        return facts.st_ino == self.inode and (facts.st_uid, facts.st_gid) in self.owners


@dataclass
class Specials:
    """Those of one phase and tree, by inode, and the file to which new ones are added (descriptor; -1: none)."""

    known: dict[int, list[Special]] = field(default_factory=dict)
    handle: int = -1

    def of(self, path: str, facts: os.stat_result) -> Special | None:
        """What was written down of it, put together: it may have been begun several times."""
        found = [one for one in self.known.get(facts.st_ino, ()) if one.path == path and one.is_of(facts)]
        if not found:
            return None
        flags, capability, mode = 0, "", -1
        for one in found:
            flags |= one.flags
            # guard: what was written meanwhile gets no setuid bit and no capability -> False
            if not one.is_unchanged(facts):
                continue
            capability = one.capability or capability
            mode = one.mode if one.mode >= 0 else mode
        last = found[-1]
        return Special(
            last.phase, last.tree, path, last.inode, last.owners, mode, capability, flags, last.size, last.written
        )

    def write(self, specials: Iterable[Special]) -> None:
        """Add some, durably, before anything happens to them."""
        specials = list(specials)
        data = "".join(json.dumps(asdict(one)) + "\n" for one in specials).encode("ascii")
        while data:  # a line that a cut left half is not read
            data = data[os.write(self.handle, data) :]
        os.fsync(self.handle)  # guard: what an inode would lose is on the disk before it changes hands
        for one in specials:
            self.known.setdefault(one.inode, []).append(one)


def parse(data: bytes) -> list[Special]:
    """Given the file, return what was written down. A last line that was cut off was not begun."""
    found = []
    for line in data.split(b"\n"):
        try:
            raw = json.loads(line)
            before, after = raw.pop("owners")
            found.append(Special(owners=((before[0], before[1]), (after[0], after[1])), **raw))
        except (ValueError, KeyError, TypeError):
            continue
    return found

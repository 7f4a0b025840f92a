"""What an inode loses for a moment when its owner changes: on the disk before, for the boot that follows a cut.

The kernel takes setuid bits and capabilities from what changes hands, and immutable files do not change hands at all.
Each process of a walk writes down the few hundred inodes that it is changing, and forgets them once they are whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from ansible_collections.gpuadmin.node.plugins.module_utils.files import read_bytes, sync_directory, write_atomic

FLIGHT, LEFT = "flight-", "left"  # of a process; what an earlier boot was changing when it was cut off


@dataclass(frozen=True)
class Special:
    """``path`` within its tree, as os.fsdecode has it; its end, if it is long. ``owners``: uid, gid before and after.

    ``written``: when its content last changed. The rest is what it is to have then: ``mode`` (-1: whatever it has),
    ``capability`` in hex, ``flags`` of chattr.
    """

    phase: int
    tree: str
    path: str
    inode: int
    owners: tuple[tuple[int, int], tuple[int, int]]
    mode: int = -1
    capability: str = ""
    flags: int = 0
    written: int = 0

    def is_unchanged(self, path: str, facts: os.stat_result) -> bool:
        """Whether it is still the same thing, of the same owner, and nobody has written to it since."""
        return (
            (path, facts.st_ino) == (self.path, self.inode)
            # guard: nobody gets a setuid bit that was another file's
            and (facts.st_uid, facts.st_gid) in self.owners
            # guard: no setuid bit comes back to what another has written
            and facts.st_mtime_ns == self.written
        )


#: Inode number → what was written down of such an inode.
Known = dict[int, list[Special]]


@dataclass
class Flight:
    """The file in which one process writes down what it is changing. ``sync`` writes the tree's file system out.

    ``kept``: bytes at the beginning that stay, of what did not get all back.
    """

    handle: int
    sync: Callable[[], None]
    kept: int = 0

    @classmethod
    def begin(cls, directory: str, sync: Callable[[], None]) -> Flight:
        path = os.path.join(directory, f"{FLIGHT}{os.getpid()}")
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(path, flags, 0o600)
        sync_directory(directory)  # guard: the file is found after a cut that has what inodes would lose
        return cls(handle, sync, os.fstat(handle).st_size)

    def write(self, specials: Iterable[Special]) -> None:
        """Add some, durably, before anything happens to them."""
        data = "".join(json.dumps(asdict(one)) + "\n" for one in specials).encode("ascii")
        while data:  # a line that a cut left half is not read
            data = data[os.write(self.handle, data) :]
        os.fsync(self.handle)  # guard: what an inode would lose is on the disk before it changes hands

    def clear(self) -> None:
        """All that was written down is whole: it is forgotten when it is on the disk so."""
        self.sync()  # guard: what an inode had is forgotten only when it has it again on the disk
        os.ftruncate(self.handle, self.kept)

    def keep(self) -> None:
        """Some of it is not: it stays written down until the next boot."""
        self.kept = os.fstat(self.handle).st_size


def take_over(directory: str) -> list[Special]:
    """Bring together what an earlier boot was changing when it was cut off, in one file that stays until the end."""
    flights = [name for name in sorted(os.listdir(directory)) if name.startswith(FLIGHT)]
    texts = {name: read_bytes(os.path.join(directory, name)) or b"" for name in (LEFT, *flights)}
    if any(texts[name] for name in flights):
        # a last line that was cut off ends its file: without a line end of its own it would spoil the next one
        write_atomic(os.path.join(directory, LEFT), b"\n".join(texts.values()), mode=0o600)
    for name in flights:
        os.unlink(os.path.join(directory, name))
    return [one for text in texts.values() for one in parse(text)]


def forget(directory: str) -> None:
    """Delete what was written down, for good."""
    for name in os.listdir(directory):
        if name == LEFT or name.startswith(FLIGHT):
            os.unlink(os.path.join(directory, name))
    sync_directory(directory)  # guard: steps of an earlier plan are gone before the next one is there


def select_tree(specials: Iterable[Special], phase: int, tree: str) -> Known:
    """Given what was written down, return that of one phase in one tree, by inode number."""
    known: Known = {}
    for one in specials:
        if (one.phase, one.tree) == (phase, tree):
            known.setdefault(one.inode, []).append(one)
    return known


def find(known: Known, path: str, facts: os.stat_result) -> Special | None:
    """What was written down of an inode, put together: its flags are known later than the rest."""
    found = [one for one in known.get(facts.st_ino, ()) if one.is_unchanged(path, facts)]
    if not found:
        return None
    last, flags = found[-1], 0
    for one in found:
        flags |= one.flags
    mode = max(one.mode for one in found)
    capability = next((one.capability for one in found if one.capability), "")
    return Special(last.phase, last.tree, path, last.inode, last.owners, mode, capability, flags, last.written)


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

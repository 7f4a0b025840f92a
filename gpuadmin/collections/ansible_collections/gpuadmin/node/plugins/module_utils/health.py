"""The check that slurmd runs each minute (HealthCheckProgram): a full node takes no further job until it has room, and
one with a GPU that does not answer takes none until an admin resumes it.

Running jobs go on. The check drains the node with a reason that begins with a mark, and ends only its drain for a full
disk, or Slurm's own. A drain by anybody else stays, also one that replaces the check's meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial

from gpuadmin.common.waiting import FULL, LOST

from .errors import NodeError, in_words
from .gpus.look import find_lost
from .host.status import disk
from .slurm import draining

#: A disk with fewer free bytes than LEAST, or than a PART-th of a small disk, is full; so is one with fewer free inodes
#: than a PART-th. It has room again with AGAIN times as much.
LEAST, PART = 1 << 30, 50
AGAIN = 2


def main(paths: Sequence[str], node: str | None = None) -> int:
    """Return 0 in any case: slurmd's log has the errors. ``paths``: one on each disk that jobs need."""
    name = os.environ.get("SLURMD_NODENAME", "") if node is None else node
    for look in (partial(_look_at_gpus, name), partial(_look_at_disks, name, paths)):
        try:
            wanted = look()
            changing = draining.bring(wanted, check=False, only=[f"--nodes={name}"]) if wanted else []
            if wanted and changing:
                print(f"{name}: {wanted.reason or 'there is room again'}")
        except (NodeError, OSError) as error:  # guard: a check that fails keeps no node from the queue
            print(f"Error: {in_words(error)}")
    return 0


def _look_at_gpus(name: str) -> draining.Wanted | None:
    """What a node with its GPUs is to be; None: as it is."""
    found = find_lost()
    if found is None or not found.numbers:
        return None  # one that answers again may be sick all the same: an admin says so
    # guard: a node with a GPU that does not answer takes no job -> None
    return draining.Wanted([name], ", ".join(map(str, found.numbers)), mark=LOST)


def _look_at_disks(name: str, paths: Sequence[str]) -> draining.Wanted | None:
    """What a node with these disks is to be; None: as it is. Raises OSError."""
    # guard: a node whose disk is full takes no job -> []
    full = list(_below(paths, 1))
    if full:
        return draining.Wanted([name], ", ".join(full), mark=FULL)
    # guard: a disk that is full again at once does not open and close a node each minute -> False
    if any(_below(paths, AGAIN)):
        return None
    return draining.Wanted([name], resume=True, mark=FULL)


def _below(paths: Sequence[str], times: int) -> Iterator[str]:
    """Yield the mount points of disks with less than ``times`` the space of a full one. Raises OSError."""
    seen = set()
    for path in paths:
        try:
            found = disk(path)
        except NodeError:  # guard: a file server that is full or away closes no node
            continue
        inodes = os.statvfs(found.mount)
        little = found.free < times * min(LEAST, found.bytes // PART)
        few = inodes.f_favail < times * (inodes.f_files // PART)  # btrfs has none to run out of: 0 of 0
        if (little or few) and found.mount not in seen:
            seen.add(found.mount)
            yield found.mount

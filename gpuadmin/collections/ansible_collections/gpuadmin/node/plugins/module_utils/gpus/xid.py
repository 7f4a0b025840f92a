"""Errors that NVIDIA's driver noted in the kernel's log since boot ("Xid"): how often each came, on which GPU.

https://docs.nvidia.com/deploy/xid-errors: most come from a person's program and say nothing about the GPU.
"""

from __future__ import annotations

import errno
import os
import re
import time

LOG = "/dev/kmsg"
#: The GPU must not be used before it is reset or replaced.
STAY_AWAY = {
    48: "memory error that ECC could not correct",
    62: "its controller halted",
    64: "a bad row of memory could not be remapped",
    95: "memory error that was not contained",
    119: "its system processor does not answer",
    120: "its system processor failed",
    140: "memory error that was not recovered",
}
#: Something to look after; the GPU works.
WORSE = {
    63: "a bad row of memory is remapped at the next reset",
    74: "NVLink error",
    79: "has fallen off the bus",  # it does not answer, and counts as one that is lost
    92: "many memory errors that ECC corrected",
    94: "memory error that was contained",
    154: "the driver asked for a reset, or a reboot",  # with another one, which can be a program's
}
RESET = 154
# of a GPU that is divided the instance follows its address; 154 also says that nothing is needed any more
_LINE = re.compile(
    r"NVRM: Xid \(PCI:([0-9a-fA-F:.]{7,16})(?: GPU-C?I:[0-9]{1,4}){0,2}\): "
    r"(?!154, .{0,80} to 0x0\b)(\d{1,4})\b"
)
_RECORD = 8192  # bytes; the kernel's records are at most that long
_MOST = 200_000  # records; the kernel's buffer has fewer
_SECONDS = 3.0


def read(path: str = LOG) -> list[dict[str, object]]:
    """``address``, ``xid``, ``count`` and the last one's ``seconds`` since boot. Raises OSError if it may not be read.

    The kernel's buffer has room for so much: on a node that has run for long, old lines are gone.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    found: dict[tuple[str, int], tuple[int, int]] = {}
    end = time.monotonic() + _SECONDS
    try:
        for _ in range(_MOST):
            try:
                record = os.read(handle, _RECORD)
            except OSError as error:
                if error.errno == errno.EPIPE:  # it was overwritten as we read
                    continue
                if error.errno == errno.EAGAIN:
                    break
                raise
            if not record or time.monotonic() > end:
                break
            entry = parse(record.decode("ascii", "replace"))
            if entry is not None:
                address, xid, seconds = entry
                found[address, xid] = (found.get((address, xid), (0, 0))[0] + 1, seconds)
    finally:
        os.close(handle)
    return [
        {"address": address, "xid": xid, "count": count, "seconds": seconds}
        for (address, xid), (count, seconds) in sorted(found.items())
    ]


def parse(record: str) -> tuple[str, int, int] | None:
    """A record of /dev/kmsg (`PRIORITY,SEQUENCE,MICROSECONDS,…;TEXT`): address, Xid and seconds, or None.

    What programs write into the log is never the kernel's own facility, 0. A process's name is later in the line.
    """
    prefix, _, text = record.partition(";")
    columns = prefix.split(",")
    found = _LINE.match(text)
    if (
        found is None
        or len(columns) < 3
        or not columns[0].isdecimal()
        or int(columns[0]) >> 3 != 0  # guard: what a program writes into the kernel's log is not an error of a GPU
    ):
        return None
    address = found.group(1).lower()
    address += "" if "." in address else ".0"
    return address, int(found.group(2)), int(columns[2]) // 1_000_000 if columns[2].isdecimal() else 0

"""What survives a restart: how long people held and used GPUs, or hold one ungranted, and the kernel log's errors."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ..errors import NodeError
from ..files import read_bytes, write_atomic
from ..gpus.xid import LOG, parse
from ..paths import STATE
from .exposition import Samples

FILE = f"{STATE}/metrics/counters.json"
FORMAT = 1
MOST = 4096  # pairs of a GPU and a person; those that were not added to for longest go first
MOST_XIDS = 1024
HIDDEN = 86400.0  # seconds for which since when somebody holds what nobody granted is not forgotten
GAP = 60.0  # seconds without a look; what happened in between is unknown
_RECORD = 8192  # bytes; the kernel's records are at most that long
_SECONDS = 0.02  # of one pass over the kernel's log


@dataclass
class Use:
    """Seconds. ``last``: when somebody held it last, since 1970; ``used``: until when it was used, or may have been."""

    held: float = 0.0
    measured: float = 0.0
    active: float = 0.0
    last: float = 0.0
    used: float = 0.0


class Counters:
    """``boot``: the id of this boot; of another one, the place in the kernel's log means nothing."""

    def __init__(self, path: str = FILE, boot: str | None = None) -> None:
        self._path = path
        self._boot = _boot_id() if boot is None else boot
        self._uses: dict[tuple[str, str], Use] = {}
        self._xids: dict[tuple[str, int], int] = {}
        self._ungranted: dict[tuple[str, str], float] = {}
        self._away: dict[tuple[str, str], tuple[float, float]] = {}  # since when, and until when it was seen
        self._place = -1
        self._log = -1

    def load(self) -> None:
        """What was saved. Raises NodeError if it is damaged: then all begins with nothing, as Prometheus expects."""
        raw = read_bytes(self._path)
        if raw is None:
            return
        try:
            found = json.loads(raw)
            if found["format"] != FORMAT:
                raise ValueError(f"format {found['format']}")
            uses = {(str(uuid), str(user)): Use(*map(_seconds, rest)) for uuid, user, *rest in found["uses"]}
            xids = {(str(address), int(xid)): int(count) for address, xid, count in found["xids"]}
            ungranted = {(str(uuid), str(user)): _seconds(since) for uuid, user, since in found.get("ungranted", ())}
            place = int(found["place"]) if found["boot"] == self._boot else -1
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise NodeError(f"{self._path} is damaged ({error}): the counters start from zero") from None
        self._uses, self._xids, self._place, self._ungranted = uses, xids, place, ungranted

    def save(self) -> None:
        data = {
            "format": FORMAT,
            "boot": self._boot,
            "place": self._place,
            "uses": [[*key, one.held, one.measured, one.active, one.last, one.used] for key, one in self._uses.items()],
            "xids": [[*key, count] for key, count in self._xids.items()],
            "ungranted": [[*key, since] for key, since in self._ungranted.items()],
        }
        write_atomic(self._path, json.dumps(data).encode(), mode=0o600)

    def add(self, uuid: str, user: str, seconds: float, active: bool | None) -> None:
        """Somebody held a GPU for ``seconds``. ``active``: whether they used it, None if that is not known."""
        if (uuid, user) not in self._uses and len(self._uses) >= MOST:
            del self._uses[min(self._uses, key=lambda key: self._uses[key].last)]
        use = self._uses.setdefault((uuid, user), Use())
        use.held += seconds
        before, use.last = use.last, time.time()
        # where nobody looked, or nobody knows, it may have been used
        if (
            # guard: a look that does not know begins the idle time again -> active
            active is not False or not use.last - GAP <= before <= use.last or use.used > use.last
        ):
            use.used = use.last
        if active is not None:
            use.measured += seconds
            use.active += seconds if active else 0.0

    def ungranted(
        self, held: Iterable[tuple[str, str]], granted: Collection[tuple[str, str]] | None = ()
    ) -> Mapping[tuple[str, str], float]:
        """Given who holds what without a grant now, return since when. Whoever was ``granted`` it is forgotten; None:
        all are, for it is open to everybody.

        Whoever let go is, too, but not at once: nobody can open it again, so who holds it again had hidden it (a file
        that is under way in a socket is nobody's).
        """
        now = time.time()
        self._away.update({key: (since, now) for key, since in self._ungranted.items()})
        kept = {} if granted is None else {key: one for key, one in self._away.items() if key not in granted}
        recent = [(key, one) for key, one in kept.items() if now - one[1] < HIDDEN]
        self._away = dict(recent[-MOST:])  # guard: who let go is not kept for ever -> dict(recent)
        before = {key: since for key, (since, _) in self._away.items()}  # guard: what was hidden is not forgotten -> {}
        self._ungranted = {key: min(before.get(key, now), now) for key in held}
        return self._ungranted

    def unused(self, uuid: str, user: str) -> float | None:
        """Until when somebody used a GPU, seconds since 1970 (0: never); None: they use it now, or nobody knows."""
        use = self._uses.get((uuid, user))
        if use is None:
            return 0.0
        # guard: a GPU that its person uses now is not unused -> use.used
        return None if use.used >= use.last and time.time() - use.last < GAP else use.used

    def read_log(self, path: str = LOG) -> None:
        """Count what the kernel's log has got since. Raises OSError if it cannot be read."""
        if self._log < 0:
            self._log = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            try:
                record = os.read(self._log, _RECORD)
            except OSError as error:
                if error.errno == errno.EPIPE:  # records were overwritten before we read them
                    continue
                if error.errno == errno.EAGAIN:
                    return
                raise
            if not record:
                return
            self._count(record.decode("ascii", "replace"))

    def _count(self, record: str) -> None:
        number = record.split(",", 2)[1:2]
        if not number or not number[0].isdecimal() or int(number[0]) <= self._place:
            return
        self._place = int(number[0])
        entry = parse(record)
        if (
            entry is not None
            and (entry[:2] in self._xids or len(self._xids) < MOST_XIDS)  # guard: only so many errors become series
        ):
            self._xids[entry[:2]] = self._xids.get(entry[:2], 0) + 1

    def put(self, samples: Samples) -> None:
        for (uuid, user), use in self._uses.items():
            samples.put("gpuadmin_gpu_held_seconds_total", round(use.held, 3), uuid=uuid, user=user)
            samples.put("gpuadmin_gpu_measured_seconds_total", round(use.measured, 3), uuid=uuid, user=user)
            samples.put("gpuadmin_gpu_active_seconds_total", round(use.active, 3), uuid=uuid, user=user)
            if use.used < use.last and time.time() - use.last < GAP:
                samples.put("gpuadmin_gpu_unused_since_timestamp_seconds", round(use.used), uuid=uuid, user=user)
        for (address, xid), count in self._xids.items():
            samples.put("gpuadmin_gpu_xid_errors_total", count, address=address, xid=xid)


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e12:
        raise ValueError(f"{value!r} is not a number of seconds")
    return float(value)


def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
        return stream.read(64).strip()

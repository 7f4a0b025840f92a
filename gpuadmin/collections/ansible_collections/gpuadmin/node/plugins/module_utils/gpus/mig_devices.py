"""What is remembered of MIG until the next boot: which device files open each MIG device that gpuadmin has made, and
which GPUs wait until nobody is on them. It is read where no driver may be asked.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from ..documents import parse
from ..errors import NodeError
from ..files import read_bytes, write_atomic
from ..paths import RUN

FILE = "gpu-mig-devices.json"
WAITING = "gpu-mig-waiting.json"
STALE = 600.0  # seconds after which nobody waits any more: whoever does says so again and again
_PATH = re.compile(r"/dev/(nvidia[0-9]{1,3}|nvidia-caps/nvidia-cap[0-9]{1,6})\Z")


@dataclass(frozen=True)
class MigDevice:
    """``gpu``: the uuid of its GPU. ``files``: the GPU's device, and what opens this instance of it alone."""

    uuid: str
    gpu: str
    profile: str
    files: Sequence[str]


def write(devices: Iterable[MigDevice], run: str = RUN) -> None:
    """Remember them until the next boot, which takes them away."""
    data = json.dumps([asdict(one) for one in devices], indent=1) + "\n"
    write_atomic(os.path.join(run, FILE), data.encode(), mode=0o644, sync=False)


def read(run: str = RUN) -> list[MigDevice]:
    """Those that are recorded; none where the record is damaged: nothing is opened by it then."""
    try:
        found = json.loads(read_bytes(os.path.join(run, FILE)) or b"[]")
        devices = [parse(MigDevice, one, FILE) for one in found]
    except (NodeError, OSError, ValueError, TypeError):
        return []
    return [
        one
        for one in devices
        if all(_PATH.match(path) for path in one.files)  # guard: a record of MIG devices opens files of GPUs alone
    ]


@dataclass(frozen=True)
class Waiting:
    """``gpus``: by uuid, those that are divided as soon as nobody is on them. ``told``: uids of who knows it."""

    gpus: Sequence[str] = ()
    told: Sequence[int] = ()


def wait(waiting: Waiting, run: str = RUN) -> None:
    write_atomic(os.path.join(run, WAITING), json.dumps(asdict(waiting)).encode(), mode=0o600, sync=False)


def waiting(run: str = RUN) -> Waiting:
    """Which GPUs wait now; none if whoever waited has gone."""
    path = os.path.join(run, WAITING)
    try:
        if time.time() - os.stat(path).st_mtime > STALE:
            return Waiting()
        return parse(Waiting, json.loads(read_bytes(path) or b"{}"), WAITING)
    except (NodeError, OSError, ValueError):
        return Waiting()

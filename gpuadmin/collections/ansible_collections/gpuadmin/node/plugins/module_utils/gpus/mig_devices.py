"""The MIG devices that gpuadmin has made: which device files open each. They are read where no driver may be asked."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from ..documents import parse
from ..errors import NodeError
from ..files import read_bytes, write_atomic
from ..paths import RUN

FILE = "gpu-mig-devices.json"
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

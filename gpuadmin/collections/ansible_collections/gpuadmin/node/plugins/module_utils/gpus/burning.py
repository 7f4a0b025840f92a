"""Burn-in: a program that loads a node's GPUs. Nobody computes there meanwhile, nor afterwards until one passes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from gpuadmin.common.text import clock

from .. import background
from ..documents import parse_settings
from ..errors import NodeError
from ..files import read_bytes, write_atomic
from ..run import program

RECORD = "burn-in.json"  # in the node's state
#: NVIDIA's DCGM. CUDA's own programs were of its demo_suite, which CUDA 13 no longer has.
DCGM = ("/usr/bin/dcgmi", "diag", "-r", "3")


@dataclass(frozen=True)
class Burning:
    """``begun``, ``ended``: seconds since 1970. ``by``: who asked. ``problem``: why it has not passed."""

    command: Sequence[str]
    by: str
    begun: int
    ended: int = 0
    problem: str = "it has not ended"


def read(state: str) -> Burning | None:
    """The last burn-in of a node. One that cannot be read has not passed."""
    path = os.path.join(state, RECORD)
    try:
        data = read_bytes(path)
        return None if data is None else parse_settings(Burning, json.loads(data), path)
    except (NodeError, ValueError) as error:
        return Burning((), "", 0, problem=f"{path} is damaged: {error}")


def problems(state: str) -> Iterator[str]:
    """Why a node takes no work because of its burn-in."""
    last = read(state)
    # guard: a node takes no work while its burn-in runs, nor after one that failed -> None
    if last is not None and last.problem:
        yield f"burn-in of {clock(last.begun)}: {last.problem}"


def settled(state: str) -> float:
    """Up to which second of this boot a burn-in that passed has proved mended what Xids say."""
    last, now = read(state), time.time()
    if last is None or last.problem:
        return 0.0
    if last.begun > now:  # guard: a burn-in by a clock that was wrong has proved nothing
        return 0.0
    return last.begun - (now - time.monotonic())


def choose_program(wanted: Sequence[str]) -> Sequence[str]:
    """The site's program, or DCGM's. Raises NodeError."""
    if not wanted and not os.access(DCGM[0], os.X_OK):
        raise NodeError(f"{DCGM[0]} is not here: install NVIDIA's DCGM, or name a program in gpus.health.burn_in")
    return wanted or DCGM


def keep(state: str, record: Burning) -> None:
    write_atomic(os.path.join(state, RECORD), json.dumps(asdict(record), indent=1).encode(), mode=0o644)


def burn(command: Sequence[str]) -> str:
    """Run the program in a unit of its own. Returns why it failed; empty: it passed."""
    try:
        done = background.perform("gpu-burn-in", program, {"command": list(command)}, properties=("RuntimeMaxSec=1d",))
    except NodeError as error:  # such as: it took too long
        return str(error)[:400]
    lines = [line.strip() for line in str(done["output"]).splitlines() if line.strip()]
    return "" if done["status"] == 0 else f"{' '.join(lines[-2:])[-400:] or 'no word'} (status {done['status']})"

"""Makes the specification that gives containers GPUs by name, at boot and whenever something about them changed.

`nvidia-ctk` knows what a container needs of a driver, and writes it. This file decides when, and what happens to the
old one: a name stays only for what answers. A driver that does not answer in time is unknown, and changes nothing.
"""

from __future__ import annotations

import glob
import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import NodeError, in_words
from ..files import flocked, make_directory, write_atomic
from ..run import LateError, run_command
from . import cdi, nvml
from . import driver as drivers
from .isolated_call import HungError, isolated_call
from .look import SECONDS, WORDS, Places
from .pci import devices as on_the_bus

TOOL = "/usr/bin/nvidia-ctk"
GENERATE = ("cdi", "generate", "--format", "json", "--device-name-strategy", "index", "--device-name-strategy", "uuid")
NODES = ("system", "create-device-nodes", "--control-devices")
TOOL_SECONDS = 60.0
#: What changes with the driver, its GPUs and their MIG devices. Names alone: nothing of it asks a GPU.
LAYOUT = (
    "dev/nvidia*",
    "dev/nvidia-caps/*",
    "proc/driver/nvidia/gpus/*",
    "proc/driver/nvidia/capabilities/gpu*/mig/gi*",  # guard: MIG devices that changed are noticed
    "proc/driver/nvidia/capabilities/gpu*/mig/gi*/ci*",
)


@dataclass(frozen=True)
class Outcome:
    """``spec``: what should be there; None for none. ``problem``: why not all is named that should be.

    ``failed``: GPUs answer, and containers do not get them. ``unknown``: the old one stays as it is.
    """

    spec: Mapping[str, Any] | None = None
    problem: str | None = None
    failed: bool = False
    unknown: bool = False


def main(places: Places | None = None, tool: str = TOOL) -> int:
    """Bring the specification up to date. 0; 1 where GPUs answer and containers do not get them."""
    where = places or Places()
    record = os.path.join(where.root, cdi.RECORD)
    with flocked(os.path.join(os.path.dirname(record), "gpu-devices.lock")):
        state = layout(where, tool)
        if state == _recorded(record):
            print("nothing has changed")
            return 0
        outcome = decide(where, tool)
        words = _written(outcome, where.root)
        # failures are tried again each time: a GPU that comes back need not look different
        kept = {
            "layout": None
            if outcome.problem  # guard: what goes wrong is tried again
            else layout(where, tool),
            "problem": outcome.problem,
        }
        write_atomic(record, json.dumps(kept).encode(), mode=0o600, sync=False)
    print(words)
    if outcome.problem:
        print(f"{'Error' if outcome.failed else 'Note'}: {outcome.problem}", file=sys.stderr)
    return 1 if outcome.failed else 0


def layout(where: Places, tool: str) -> list[str]:
    """What a specification is made from, as lines that differ when it has to be made again."""
    root = where.root
    found = [f"{one.address} {one.driver}" for one in on_the_bus(where.bus, ())]
    for pattern in LAYOUT:
        found += [os.path.relpath(path, root) for path in sorted(glob.glob(os.path.join(root, pattern)))]
    driver = drivers.look(root)
    found += [f"driver {driver.module} {driver.library} {driver.libraries}"]
    for path in (tool, driver.library, os.path.join(root, cdi.SPEC)):
        try:
            facts = os.stat(path) if path else None
        except OSError:
            facts = None
        found.append(f"{path} {facts and (facts.st_ino, facts.st_size, facts.st_mtime_ns)}")
    return found


def decide(where: Places, tool: str) -> Outcome:
    """What containers should be able to ask for now."""
    devices = on_the_bus(where.bus, ())
    if not devices:
        return Outcome()
    driver = drivers.look(where.root)
    missing = drivers.missing(driver, devices)
    library = where.library or driver.library
    if driver.module is None or driver.differ or library is None:
        return Outcome(problem="; ".join(missing))
    if not os.access(tool, os.X_OK):
        return Outcome(problem=f"{tool} is missing: install NVIDIA's container toolkit (nvidia-container-toolkit-base)")
    try:
        gpus = isolated_call(lambda: nvml.read(library), seconds=SECONDS, lock=where.lock)["gpus"]
    except HungError as error:
        return Outcome(problem=str(error), unknown=True)
    except NodeError as error:
        return Outcome(problem=WORDS.get(str(error).partition(" ")[0], str(error)))
    names = cdi.wanted(gpus)
    if not names:
        return Outcome(problem="no GPU answers, or none of its MIG devices is made")
    try:
        spec = generated(tool)
    except LateError:
        return Outcome(problem=f"{tool} did not end in {TOOL_SECONDS:g} s", failed=True, unknown=True)
    except (NodeError, OSError) as error:
        return Outcome(_reduced(where.root, names), f"{tool}: {in_words(error)}", failed=True)
    lack = names - cdi.names(spec)  # guard: what the toolkit leaves out is an error -> frozenset()
    problem = f"{tool} does not name {', '.join(sorted(lack))}" if lack else None
    wrong = "; ".join([problem] if problem else cdi.closed(cdi.device_nodes(spec), where.root))
    return Outcome(spec, wrong or None, failed=bool(wrong))


def generated(tool: str) -> Mapping[str, Any]:
    """What the toolkit would have containers be given. Raises NodeError with its own words."""
    # Only root can make these files. Where modules cannot be loaded, they may be a part of the kernel.
    if run_command((tool, *NODES, "--load-kernel-modules"), seconds=TOOL_SECONDS).returncode != 0:
        run_command((tool, *NODES), seconds=TOOL_SECONDS)
    # Newer ones write more than one specification, each to a file of its own; the first is of all GPUs.
    with tempfile.TemporaryDirectory(prefix="gpuadmin-cdi-") as directory:
        path = os.path.join(directory, "nvidia.json")
        done = run_command((tool, *GENERATE, "--output", path), seconds=TOOL_SECONDS)
        if done.returncode != 0:
            raise NodeError(_complaint(done.stderr) or f"status {done.returncode}")
        with open(path, "rb") as stream:
            return cdi.parse(stream.read())


def _complaint(text: str) -> str:
    """What is behind `level=error msg=` in the toolkit's last line."""
    lines = [line for line in text.splitlines() if "level=error" in line]
    found = re.search(r'msg="(.*)"$', lines[-1]) if lines else None
    return found.group(1) if found else ""


def _reduced(root: str, names: frozenset[str]) -> Mapping[str, Any] | None:
    """The old specification, without what does not answer any more: with one GPU lost the others are still there."""
    try:
        with open(os.path.join(root, cdi.SPEC), "rb") as stream:
            old = cdi.parse(stream.read())
    except (NodeError, OSError):
        return None
    left = [
        one
        for one in old["devices"]
        if one["name"] in names  # guard: with one GPU lost only the others keep their names
    ]
    return {**old, "devices": left} if left else None


def _written(outcome: Outcome, root: str) -> str:
    """Put it there, or take the old one away; in words."""
    path = os.path.join(root, cdi.SPEC)
    if outcome.unknown:  # guard: names of GPUs that are not known to be gone stay
        return "what containers can ask for stays as it was"
    if outcome.spec is None:
        if os.path.lexists(path):
            os.unlink(path)  # guard: a GPU that is gone has no name for containers
        return "containers can ask for no GPU"
    make_directory(os.path.dirname(path), 0o755, sync=False)
    # JSON is YAML, too. A daemon's library watches the directory and sees the new file as a whole.
    data = (json.dumps(outcome.spec, indent=1) + "\n").encode()
    if os.path.islink(path):
        os.unlink(path)
    write_atomic(path, data, mode=0o644, sync=False)
    os.chmod(path, 0o644)
    names: Sequence[str] = sorted(cdi.names(outcome.spec), key=lambda name: (len(name), name))
    return f"containers can ask for {', '.join(f'{cdi.KIND}={name}' for name in names)}"


def _recorded(path: str) -> object:
    try:
        with open(path, "rb") as stream:
            return json.load(stream).get("layout")
    except (OSError, ValueError, AttributeError):
        return None

"""The specification that gives containers GPUs by name (CDI), and what is wrong with it. Nothing is changed here.

https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
"""

from __future__ import annotations

import glob
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import NodeError, in_words
from ..files import read_bytes

KIND = "nvidia.com/gpu"
#: The name that NVIDIA's own unit and manual have: whoever follows them replaces this file, and makes no second one.
SPEC = "run/cdi/nvidia.yaml"
DIRECTORIES = ("etc/cdi", "run/cdi")
#: What is known of the last attempt: why there is no specification.
RECORD = "run/gpuadmin/gpu-devices.json"
#: Only where this unit is, somebody wants containers to have GPUs.
UNIT = "etc/systemd/system/gpuadmin-gpu-devices.service"
ALL = "all"
REFRESH = "systemctl start gpuadmin-gpu-devices.service"
_MOST = 4 << 20  # bytes of a specification; eight GPUs with all libraries have some 30,000
#: What others must be allowed to do with NVIDIA's device files; those of MIG devices are only read. Those of displays
#: (/dev/dri) come along, and computing does without them.
_OPEN = {"/dev/nvidia-caps": stat.S_IROTH, "/dev/nvidia": stat.S_IROTH | stat.S_IWOTH}


@dataclass(frozen=True)
class Spec:
    """What containers can ask for. ``names``: of devices. ``nodes``: the device files that these give.

    ``problem``: why there is nothing, or nothing that can be read. ``closed``: what is wrong with a device file.
    ``others``: files beside ours that name GPUs, too.
    """

    names: frozenset[str] = frozenset()
    nodes: tuple[str, ...] = ()
    problem: str | None = None
    closed: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def look(root: str = "/") -> Spec | None:
    """What a host's specification has; None if nobody said that it should have one."""
    if not os.path.lexists(os.path.join(root, UNIT)):
        return None
    others = tuple(_others(root))
    try:
        data = read_bytes(os.path.join(root, SPEC))
        if data is None:
            return Spec(problem=_last_problem(root) or f"there is no /{SPEC}: {REFRESH}", others=others)
        spec = parse(data)
    except (NodeError, OSError) as error:
        return Spec(problem=in_words(error), others=others)
    nodes = device_nodes(spec)
    return Spec(names(spec), nodes, None, tuple(closed(nodes, root)), others)


def parse(data: bytes) -> Mapping[str, Any]:
    """A specification as `nvidia-ctk` writes it in JSON. Raises NodeError if it is not one."""
    try:
        spec = json.loads(data)
        if (
            # guard: what is not a specification of GPUs is not put there
            spec["kind"] != KIND or not all(isinstance(one["name"], str) for one in spec["devices"])
        ):
            raise ValueError
        device_nodes(spec)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise NodeError(f"/{SPEC} is not as gpuadmin writes it: remove it, then {REFRESH}") from None
    found: Mapping[str, Any] = spec
    return found


def names(spec: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(one["name"] for one in spec["devices"])


def device_nodes(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The device files on the host that one or all of the devices give to a container."""
    edits = [spec.get("containerEdits") or {}, *(one.get("containerEdits") or {} for one in spec["devices"])]
    found = {str(node.get("hostPath") or node["path"]) for one in edits for node in one.get("deviceNodes") or ()}
    return tuple(sorted(found))


def closed(nodes: Sequence[str], root: str = "/") -> Iterator[str]:
    """What is wrong with device files: people are in none of their groups, so everybody must be able to open them."""
    for path in nodes:
        try:
            mode = os.stat(os.path.join(root, path.lstrip("/"))).st_mode
        except OSError:
            yield f"{path} is missing"
            continue
        if not stat.S_ISCHR(mode):
            yield f"{path} is not a device"
            continue
        need = next((bits for start, bits in _OPEN.items() if path.startswith(start)), 0)
        if mode & need != need:  # guard: device files that people cannot open are reported
            yield f"{path} has mode {stat.S_IMODE(mode):04o}, and people cannot open it"


def wanted(gpus: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The names that `nvidia-ctk` gives to what answers: by index and by UUID; of a divided GPU its MIG devices."""
    found: set[str] = set()
    for gpu in gpus:
        if gpu["problem"] is not None:
            continue
        here = [(str(gpu["index"]), gpu.get("uuid"))]
        if gpu.get("mig"):
            here = [(f"{gpu['index']}:{one['index']}", one.get("uuid")) for one in gpu.get("mig_devices") or ()]
        found.update(str(name) for pair in here for name in pair if name)
    return frozenset(found)


def wrong(spec: Spec | None, gpus: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Sentences on what containers do not get, or get and should not. Nothing where all is well, or nobody wants it."""
    if spec is None:
        return
    answering = wanted(gpus)
    if spec.problem is not None:
        if answering:
            yield f"containers get no GPU: {spec.problem}"
    else:
        gone = sorted(spec.names - answering - {ALL})  # guard: names of GPUs that do not answer are reported -> []
        lack = sorted(answering - spec.names)
        if lack:
            yield f"containers cannot ask for {_listed(lack)}: {REFRESH}"
        if gone:
            yield f"containers can ask for {_listed(gone)}, which do not answer: {REFRESH}"
        if answering and ALL not in spec.names:
            yield f"containers cannot ask for all GPUs ({KIND}={ALL}) while one does not answer"
        if answering:
            yield from (f"containers: {one}" for one in spec.closed)
    for path in spec.others:
        yield f"{path} names GPUs as well, which may be others now: remove it"


def _listed(given: Sequence[str], most: int = 4) -> str:
    first = ", ".join(f"{KIND}={one}" for one in given[:most])
    return first + (f" and {len(given) - most} more" if len(given) > most else "")


def _others(root: str) -> Iterator[str]:
    for directory in DIRECTORIES:
        for path in sorted(glob.glob(os.path.join(root, directory, "*"))):
            name = os.path.relpath(path, root)
            if name == SPEC or not name.endswith((".json", ".yaml", ".yml")):
                continue
            try:
                with open(path, encoding="utf-8", errors="replace") as stream:
                    text = stream.read(_MOST)
            except OSError:
                continue
            if re.search(r"""(?m)["']?\bkind["']?\s*:\s*["']?nvidia\.com/gpu["']?\s*(?:$|[,}#])""", text):
                yield f"/{name}"


def _last_problem(root: str) -> str | None:
    try:
        recorded = json.loads(read_bytes(os.path.join(root, RECORD)) or b"{}")
        return str(recorded["problem"]) if recorded.get("problem") else None
    except (NodeError, OSError, ValueError, AttributeError):
        return None

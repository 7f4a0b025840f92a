"""What a job can have of a node's GPUs where some of them are divided: whole GPUs, and MIG devices, in Slurm's numbers.

Slurm numbers them as gres.conf lists them. Nodes fetch that file from the controller, so it says which device a number
is (seen with 24.11.5: a prolog is told these numbers).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import NodeError
from ..files import read_bytes
from ..gpus.mig import MigDevice, parse_mig_profile

#: Where slurmd keeps what it fetched; root alone writes there.
FETCHED = "run/slurm/conf/gres.conf"
_FILE = re.compile(r"/dev/(nvidia[0-9]{1,3}|nvidia-caps/nvidia-cap[0-9]{1,6})\Z")
_PROFILE = re.compile(r"[0-9a-z][0-9a-z.+-]{0,30}\Z")
_LINE = re.compile(r"(?m)^NodeName=(\S+) Name=gpu (?:Type=\S+ )?(?:Multiple)?(Files?)=(\S+)$")
_RANGE = re.compile(r"/dev/nvidia\[0-([0-9]{1,3})\]\Z")


@dataclass(frozen=True)
class Part:
    """``profile``: of a MIG device; empty: a whole GPU. ``files``: what opens it; of a whole one its device alone."""

    profile: str
    files: Sequence[str]


def list_gpu_parts(there: Mapping[str, Sequence[str]], devices: Iterable[MigDevice]) -> list[Part]:
    """What jobs can have of what a host has (device_files.gpus); empty where no GPU is divided."""
    mig = {one.uuid: one for one in devices if one.uuid in there}
    if not mig:
        return []
    whole = {one.gpu for one in mig.values()}
    found = [Part("", files[:1]) for name, files in there.items() if name not in mig and name not in whole]
    # guard: a GPU that is divided is given to no job as a whole -> found
    return [*found, *(Part(parse_mig_profile(mig[name].profile), list(there[name])) for name in there if name in mig)]


def parts(said: object) -> Sequence[Part]:
    """What a host says of itself; empty where that is not understood, or where no GPU is divided."""
    found = []
    for one in said if isinstance(said, list) else []:
        profile, files = (one.get("profile"), one.get("files")) if isinstance(one, dict) else (None, None)
        fine = (
            isinstance(profile, str)
            and (not profile or _PROFILE.match(profile))  # guard: no line for Slurm is made of a profile
            and isinstance(files, list)
        )
        # guard: no line for Slurm is made of a device's name
        if not fine or not files or not all(isinstance(path, str) and _FILE.match(path) for path in files):
            return ()
        found.append(Part(str(profile), files))
    return tuple(found)


def listed(node: str, root: str = "/") -> list[list[str]] | None:
    """The device files of each number of a node, by what slurmd has fetched. None: it has nothing of this node."""
    try:
        text = (read_bytes(os.path.join(root, FETCHED)) or b"").decode("ascii", "replace")
    except (OSError, NodeError):
        return None
    found: list[list[str]] = []
    for name, _, files in _LINE.findall(text):
        if name != node:
            continue
        several = _RANGE.match(files)
        if several:
            found += [[f"/dev/nvidia{one}"] for one in range(int(several[1]) + 1)]
        else:
            found.append(files.split(","))
    return found or None


def find_device(number: int, there: Mapping[str, Sequence[str]], fetched: Sequence[Sequence[str]] | None) -> str | None:
    """What this host calls the GPU, or the MIG device, that Slurm gives this number. None: there is none such."""
    if fetched is None:
        # guard: where GPUs are divided a number that nobody explains is not a GPU
        if any(one.startswith("MIG-") for one in there):
            return None
        wanted: Sequence[str] = [f"/dev/nvidia{number}"]
    elif number < len(fetched):
        wanted = fetched[number]
    else:
        return None
    whole = len(wanted) == 1
    for name, files in there.items():
        if name.startswith("MIG-") != whole and list(files[:1] if whole else files) == list(wanted):
            return name
    return None

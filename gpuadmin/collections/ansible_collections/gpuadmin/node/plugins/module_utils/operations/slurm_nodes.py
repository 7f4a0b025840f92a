"""gpuadmin.node.slurm_nodes: what slurmctld knows of nodes."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional

from ..answer import Answer
from ..errors import NodeError
from ..files import read_bytes, write_atomic
from ..paths import STATE
from ..run import LateError, run_command
from ..slurm import nodes
from . import files

ROLE = "slurm_controller"
RECORD = "slurm-nodes.json"
READ = 3.0  # seconds; it reads in a hundredth, and then asks the controller


@dataclass(frozen=True)
class DeclaredNode:
    name: str
    address: str
    #: How many GPUs the inventory says that it has.
    gpus: Optional[int] = None
    #: What they are, as the inventory says.
    model: Optional[str] = None


@dataclass(frozen=True)
class Document:
    """Write what Slurm is told: slurm.conf and cgroup.conf as they are given, nodes.conf and gres.conf.

    Slurm reads all of it before any of it is in place; what it refuses leaves everything as it is.
    What nodes have is recorded in the controller's state, so that a run that looks at one of them does not take the
    others out. A node that nobody has looked at yet is left out.
    """

    #: The nodes that jobs run on.
    nodes: Sequence[DeclaredNode]
    #: Node → ``processors``, ``memory`` (MiB), ``gpus``, ``model`` and ``parts``, of those that this run has looked at.
    hardware: Any
    #: The longest job of all groups.
    hours: int
    #: Where nodes reach the controller, which is this host.
    address: str
    #: The contents of slurm.conf and cgroup.conf; without them those that are there stay.
    slurm_conf: str = ""
    cgroup_conf: str = ""
    directory: str = "/etc/slurm"
    #: Commands to run when something has changed.
    after: Sequence[Sequence[str]] = ()
    #: As that of gpuadmin.node.files.
    follows: str = ""


def operate(document: Document, check: bool, state: str = STATE) -> Answer:
    path = os.path.join(state, RECORD)
    try:
        before = json.loads(read_bytes(path) or b"{}")
        if not isinstance(before, dict):
            raise ValueError("it is not a mapping")
    except ValueError as error:
        raise NodeError(f"{path} is damaged: {error}; remove it, then gpuadmin provision") from None
    now = {name: has for name, has in dict(document.hardware or {}).items() if isinstance(has, dict)}
    found = nodes.known([asdict(one) for one in document.nodes], before, now)
    if not found:
        raise NodeError("no node has said yet what it has: gpuadmin provision, without --limit")
    record = {
        one.name: {
            "processors": one.processors,
            "memory": one.memory,
            **{key: (now.get(one.name) or before[one.name]).get(key) for key in ("gpus", "model", "parts")},
        }
        for one in found
    }
    given = {"slurm.conf": document.slurm_conf, "cgroup.conf": document.cgroup_conf}
    contents = {
        **{name: text or _there(document.directory, name) for name, text in given.items()},
        "nodes.conf": nodes.nodes_conf(found, document.hours, (os.uname().nodename, document.address)),
        "gres.conf": nodes.gres_conf(found),
    }
    read_by_slurm(contents)
    if record != before and not check:
        write_atomic(path, json.dumps(record, indent=1).encode(), mode=0o644)
    wanted = [files.WantedFile(f"{document.directory}/{name}", text) for name, text in contents.items()]
    return files.operate(files.Document(files=wanted, after=document.after, follows=document.follows), check)


def _there(directory: str, name: str) -> str:
    """What is in place, where nothing else is given."""
    return (read_bytes(os.path.join(directory, name)) or b"").decode()


def read_by_slurm(contents: Mapping[str, str]) -> None:
    """Have Slurm read a configuration that is not in place. Raises NodeError with what it says of it.

    scontrol reads slurm.conf, and nodes.conf with it, before it asks anybody anything; where it has no answer to that,
    it has read them. Nothing of Slurm's that acts on nobody reads the other two.
    """
    if shutil.which("scontrol") is None:
        return  # the first time: there is nothing yet that it could replace
    with tempfile.TemporaryDirectory(prefix="gpuadmin-slurm-") as place:
        for name, text in contents.items():
            with open(os.path.join(place, name), "w", encoding="utf-8") as stream:
                stream.write(text)
        try:
            done = run_command(("scontrol", "ping"), seconds=READ, environment={"SLURM_CONF": f"{place}/slurm.conf"})
        except LateError:
            return
    said = [line.partition(": ")[2] for line in done.stderr.replace(f"{place}/", "").splitlines()]
    # guard: a configuration that Slurm does not read replaces none
    if done.returncode != 0 and any(one.startswith("fatal: ") for one in said):
        wrong = [one.partition("error: ")[2] for one in said if one.startswith("error: ")]
        raise NodeError(f"Slurm refuses its new configuration, and keeps the one that it has: {'; '.join(wrong)}"[:600])

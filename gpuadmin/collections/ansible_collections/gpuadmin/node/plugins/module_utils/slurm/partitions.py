"""Whose nodes they are: the partitions of the queue, as nodes.conf has them and as slurmctld says.

``gpu`` has the nodes of nobody in particular. ``own-GROUP`` has a group's nodes and these: its people's jobs find a
free GPU of either before they preempt others'. Those run on nodes of groups in ``guest``, last, and are preempted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuadmin.common.records.queue import Owns

from . import queue

ANY, GUEST, OWN = "gpu", "guest", "own-"
#: Where an admin's exception runs on nodes of groups: it preempts nobody, and nobody preempts it.
EXCEPTIONS = "exception"
_FIELD = re.compile(r"(?:^|\s)([A-Za-z]+)=(\S*)")


@dataclass(frozen=True)
class Owned:
    """``owners``: node → its group. ``guests``: nodes of these that others use, too. ``notice``: seconds that a
    preempted job has. ``again``: whether it is in the queue again then."""

    owners: Mapping[str, str]
    guests: Collection[str] = ()
    notice: int = 0
    again: bool = False


def format_partitions(
    nodes: Mapping[str, str], owned: Sequence[Owns], notice: int, preempted: str, rest: str
) -> list[str]:
    """Lines of nodes.conf. ``nodes``: node → the type of its GPUs. ``rest``: what all partitions have in common."""
    owners = find_owners(nodes, owned)
    free = [one for one in nodes if one not in owners]
    # guard: on nodes that are a group's alone nobody else's job starts -> list(owners)
    shared = [one for one in owners if owners[one].others != "never"]

    def line(name: str, members: Iterable[str], *words: str) -> str:
        default = ["Default=YES"] if name == (ANY if free else GUEST) else []
        return " ".join([f"PartitionName={name} Nodes={','.join(members)}", *default, "State=UP", *words, rest]) + "\n"

    if not owners:
        return [line(ANY, free)]
    mode = "REQUEUE" if preempted == "requeue" else "CANCEL"
    lines = [f"PreemptType=preempt/partition_prio\nPreemptMode={mode}\n"]
    stays = "PreemptMode=OFF"  # guard: nobody is preempted where nobody comes first -> ""
    lines += [line(ANY, free, "PriorityTier=2", stays)] if free else []
    for group in dict.fromkeys(one.group for one in owners.values()):
        own = [one for one in owners if owners[one].group == group]
        lines.append(line(f"{OWN}{group}", [*own, *free], f"AllowAccounts={group}", "PriorityTier=2", stays))
    if shared:
        lines.append(line(GUEST, shared, "PriorityTier=1", f"GraceTime={notice * 60} PreemptMode={mode}"))
    return [*lines, line(EXCEPTIONS, owners, "RootOnly=YES", "PriorityTier=1", stays)]


def find_owners(nodes: Mapping[str, str], owned: Sequence[Owns]) -> dict[str, Owns]:
    """Node → whose it is. Who names a node comes before who names the type of its GPUs."""
    found = {node: one for one in owned for node, type in nodes.items() if type and type in one.types}
    return {**found, **{node: one for one in owned for node in one.nodes if node in nodes}}


def keep_partitions(before: str, now: str, nodes: Collection[str]) -> list[str]:
    """Lines of the partitions that were in a nodes.conf and are no more: nothing is submitted there, and nobody
    preempted. Slurm ends the jobs of a partition that it does not find, also where they could only have run there."""
    found = read_fields(now)
    lines = []
    for line in before.splitlines():
        fields = dict(_FIELD.findall(line))
        members = [one for one in fields.get("Nodes", "").split(",") if one in nodes]
        if members and fields.get("PartitionName", ANY) not in found:
            text = re.sub(r" (Default|GraceTime|PreemptMode|State)=\S*", "", line)
            lines.append(re.sub(r" Nodes=\S*", f" Nodes={','.join(members)} State=DRAIN PreemptMode=OFF", text) + "\n")
    return lines


def read_fields(text: str) -> dict[str, dict[str, str]]:
    """Partition → what a line says of it."""
    found = (dict(_FIELD.findall(line)) for line in text.splitlines() if line.startswith("PartitionName="))
    return {one["PartitionName"]: one for one in found}


def look_owned() -> Owned:
    """Whose nodes they are, as slurmctld has it. Raises NodeError."""
    fields = read_fields(queue.ask(("scontrol", "--oneliner", "show", "partition")))
    members = {name: queue.names(one.get("Nodes", "")).split(",") for name, one in fields.items()}
    owners = {
        node: name[len(OWN) :]
        for name, all in members.items() if name.startswith(OWN) and fields[name].get("State") == "UP"
        for node in all if node not in members.get(ANY, ())
    }  # fmt: skip
    guest = fields.get(GUEST, {})
    notice = guest.get("GraceTime", "")
    return Owned(
        owners, members.get(GUEST, ()), int(notice) if notice.isdecimal() else 0, guest.get("PreemptMode") == "REQUEUE"
    )

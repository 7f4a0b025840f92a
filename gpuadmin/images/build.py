"""Decisions about a build: what of it is still to be done, from which parent, and the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuadmin.errors import ConfigError
from gpuadmin.images.facts import Facts
from gpuadmin.plan import Plan, PlanBuilder


def choose_parent(golden: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], facts: Facts) -> str | None:
    """The newest image that the golden node and every target have, the same one; None: only a full stream works.

    Images that are not in the store count as the oldest; what a node has refused is nobody's parent.
    """
    refused = {name for node in (golden, *nodes) for name in node.get("refused", {})}
    common = {
        name: uuid
        for name, uuid in golden["held"].items()
        if name not in refused  # guard: an image that a node refused is nobody's parent
        and all
        # guard: a parent is the very same on all nodes -> (name in node['held'] for node in nodes)
        (node["held"].get(name) == uuid for node in nodes)
    }
    created = {name: float(manifest["created"]) for name, manifest in facts.complete.items()}
    return max(common, key=lambda name: (created.get(name, 0.0), name), default=None)


@dataclass(frozen=True)
class BuildRequest:
    """What an admin wants built, and how."""

    name: str
    upgrade: bool = False
    packages: tuple[str, ...] = ()
    playbook: Path | None = None
    shell: bool = False
    full: bool = False
    trial: bool = True


def without(node: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A node's report as if it did not hold an image: nothing is its own parent."""
    return {**node, "held": {other: uuid for other, uuid in node["held"].items() if other != name}}


def build_phases(golden: Mapping[str, Any], name: str) -> list[str]:
    """What of a build is still to be done, by what the golden node has: a build that was cut off goes on."""
    if name in golden["held"] or (golden["running"] == name and golden["current"] == name):
        return ["seal"]
    if name in golden.get("refused", {}):  # guard: a root that failed is not built upon
        raise ConfigError(
            f"the root {name} was built, and {golden['refused'][name]}", hint="build again under another name"
        )
    if name in golden["roots"]:
        return ["finish", "seal"]
    return ["main", "finish", "seal"]


def build_plan(
    host: str,
    node: Mapping[str, Any],
    request: BuildRequest,
    phases: Sequence[str],
    parent: str | None,
    silent: Mapping[str, str],
) -> Plan:
    """The plan of a build."""
    builder = PlanBuilder(f"Build the image {request.name} on {host}")
    if "main" in phases:
        changes = ["upgrade all packages"] if request.upgrade else []
        changes += [f"install {', '.join(request.packages)}"] if request.packages else []
        changes += [f"run {request.playbook}"] if request.playbook else []
        changes += ["whatever you do in a shell"] if request.shell else []
        builder.add(host, f"copy the root {node['running']}, and in the copy: {'; '.join(changes) or 'nothing'}")
    if "finish" in phases and request.trial:
        builder.add(host, f"reboot into {request.name} on trial; it comes back by itself if that fails")
        there = sorted({*node["people"], *node["gpu_work"]})
        if there:
            builder.warn(f"on {host}, and warned a minute before the reboot: {', '.join(there)}")
    if not request.trial:
        builder.warn("the golden node does not try the image; nodes do")
    ways = [f"as its difference to {parent}"] if parent else []
    ways += ["in full"] if request.full or not parent else []
    builder.add(host, f"seal {request.name} and send it to the store, {' and '.join(ways)}")
    for other, why in silent.items():
        builder.warn(f"{other} was not asked what it holds ({why}); it may need a full stream")
    return builder.build()

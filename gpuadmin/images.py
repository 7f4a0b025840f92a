"""Decisions about images: which parent, in which batches, what may be deleted, and the plan in words. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gpuadmin.errors import ConfigError

# as the node-side code has it: it becomes a path, a word of GRUB and a kernel argument
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9_-]+)*")


@dataclass(frozen=True)
class Facts:
    """What list-images found: the store's images by name, and what each node reports; hosts that did not answer."""

    store: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> dict[str, Mapping[str, Any]]:
        """The manifests of the images that are complete, newest first."""
        found = {name: entry["manifest"] for name, entry in self.store.items() if entry.get("manifest")}
        return dict(sorted(found.items(), key=lambda item: -float(item[1]["created"])))


def check_name(name: str) -> str:
    """Given an image's name, return it. Raises ConfigError."""
    if len(name) > 64 or not NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no name of an image", hint="lower-case letters, digits and . _ -, 64 at most")
    return name


def new_name(taken: Sequence[str], now: datetime | None = None) -> str:
    """A name for an image of today that none has: 2026-11-21, 2026-11-21.2, …"""
    base = f"{now or datetime.now(UTC):%Y-%m-%d}"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}.{number}"
    return name


def choose_parent(golden: Mapping[str, Any], nodes: Mapping[str, Mapping[str, Any]], facts: Facts) -> str | None:
    """The newest image that the golden node and every target hold as the very same one; None: only a full stream does.

    Images that are not in the store count as the oldest.
    """
    common = {
        name: uuid
        for name, uuid in golden["held"].items()
        if all(node["held"].get(name) == uuid for node in nodes.values())
    }
    created = {name: float(manifest["created"]) for name, manifest in facts.complete.items()}
    return max(common, key=lambda name: (created.get(name, 0.0), name), default=None)


def batches(count: int, *, canary: int, batch: str) -> list[int]:
    """How many nodes go at a time: `canary` first, then `batch` (a number or a percentage of all) until all have been.

    `[1, 2, 2]` for five nodes, canary 1, batch 2.
    """
    match = re.fullmatch(r"(\d+)(%?)", batch)
    if match is None or int(match[1]) < 1 or (match[2] and int(match[1]) > 100):
        raise ConfigError(f"--batch {batch}: is neither a number of nodes nor a percentage")
    size = max(1, count * int(match[1]) // 100) if match[2] else int(match[1])
    sizes = [min(canary, count)] if canary > 0 and count > 0 else []
    while sum(sizes) < count:
        sizes.append(min(size, count - sum(sizes)))
    return sizes


@dataclass(frozen=True)
class NodePlan:
    """What a push does to one node: `action` is push, none or refuse; `words` say it."""

    action: str
    words: tuple[str, ...]


def plan_push(node: Mapping[str, Any], name: str, *, reboot: bool, force: bool) -> NodePlan:
    """Given a node's report and an image, return what a push would do there."""
    runs = f"runs {node['running']}" + ("" if node["current"] == node["running"] else ", which is not confirmed")
    if node.get("problem"):
        return NodePlan("refuse", (f"{runs}; {node['problem']}",))
    if node["image"] == name and node["current"] == node["running"] and node["receives"]["held"]:
        return NodePlan("none", (f"runs {name} already",))
    last = node.get("last") or {}
    if last.get("stage") == "pending" and node["running"] != last.get("root") and node["trial"]:
        return NodePlan("refuse", (f"{runs}; a switch to {last.get('root')} waits for its reboot",))
    people = node.get("people") or []
    if people and reboot and not force:
        return NodePlan(
            "refuse",
            (f"{runs}; {', '.join(people)} logged in: --force reboots all the same, --no-reboot only prepares",),
        )
    receives = node["receives"]
    if receives["held"]:
        how = "holds the image already"
    else:
        kind = "in full" if receives["parent"] is None else f"as the difference to {receives['parent']}"
        how = f"receives {receives['bytes'] / 1e6:.1f} MB {kind}"
    words = [f"{runs}; {how}", f"boots {name} on trial" if reboot else f"tries {name} at its next boot"]
    if people:
        words.append(f"logged in, and warned: {', '.join(people)}")
    return NodePlan("push", tuple(words))


def prune_store(facts: Facts, keep: int) -> list[str]:
    """The images to delete from the store: not the `keep` newest, not what a node runs, has confirmed or is to try, and
    not the parent of a difference that is kept. With a node that did not answer, nothing is deleted."""
    if facts.silent:
        return []
    manifests = facts.complete
    kept = set(list(manifests)[: max(keep, 1)])
    for node in facts.nodes.values():
        kept.add(str(node["image"]))
        kept |= {str(name).partition("+")[0] for name in (node["current"], node["trial"], *node["confirmed"][:2])}
    todo = [name for name in kept if name in manifests]
    while todo:
        manifest = manifests[todo.pop()]
        # whoever needs it as a difference needs the parent; one that is there in full needs none
        if any(stream["parent"] is None for stream in manifest["streams"]):
            continue
        for stream in manifest["streams"]:
            parent = stream["parent"]["name"]
            if parent in manifests and parent not in kept:
                kept.add(parent)
                todo.append(parent)
    return sorted(set(manifests) - kept)


def build_phases(golden: Mapping[str, Any], name: str) -> list[str]:
    """What of a build is still to be done, by what the golden node has: a build that was cut off goes on."""
    if name in golden["held"] or (golden["running"] == name and golden["current"] == name):
        return ["seal"]
    if name in golden["roots"]:
        reason = golden.get("refused", {}).get(name, "its trial has not succeeded")
        raise ConfigError(f"the root {name} was built, and {reason}", hint="build again under another name")
    return ["main", "finish", "seal"]

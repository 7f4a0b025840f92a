"""Decisions about a push: which nodes, in which batches, along which chain, and where the time went."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuadmin.common.text import size_words
from gpuadmin.errors import ConfigError

#: The TCP port on which nodes pass full images on to each other. Sites have opened it between their nodes (decision
#: 21); where it is closed or taken, a node gets its image from the store.
RELAY_PORT = 7370


def batches(count: int, *, canary: int, batch: str) -> list[int]:
    """How many nodes go at a time: `canary` first, then `batch` (a number or a percentage of all) until all have been.

    `[1, 2, 2]` for five nodes, canary 1, batch 2.
    """
    match = re.fullmatch(r"(\d+)(%?)", batch)
    # guard: a batch is a number of nodes -> match is None
    if match is None or int(match[1]) < 1 or (match[2] and int(match[1]) > 100):
        raise ConfigError(f"--batch {batch}: is neither a number of nodes nor a percentage")
    size = max(1, count * int(match[1]) // 100) if match[2] else int(match[1])
    sizes = [min(canary, count)] if canary > 0 and count > 0 else []
    while sum(sizes) < count:
        sizes.append(min(size, count - sum(sizes)))
    return sizes


#: Bytes below which a full stream is not worth a chain.
CHAIN_FROM = 100_000_000


def chains(
    nodes: Mapping[str, Mapping[str, Any]], sizes: Sequence[int], addresses: Mapping[str, str]
) -> list[list[str]]:
    """Given nodes (in order) with what each receives, and the batches, return the chains that full streams go along.

    A chain is of one batch, in its order; a batch with less than two nodes that need all of it has none. What passes
    it on takes names and addresses of IPv4; a node with another address is in no chain.
    """
    names, found = list(nodes), []
    for size in sizes:
        batch, names = names[:size], names[size:]
        chain = []
        for name in batch:
            receives = nodes[name]["receives"]
            whole = not receives["held"] and receives["parent"] is None
            if whole and receives["bytes"] >= CHAIN_FROM and ":" not in addresses[name]:
                chain.append(name)
        if len(chain) > 1:
            found.append(chain)
    return found


def links(found: Sequence[Sequence[str]], addresses: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Given chains of hosts, return host → its place: the port, and the addresses of the one before and the next."""
    places = {}
    for chain in found:
        ends = ["", *(addresses[name] for name in chain), ""]
        for number, name in enumerate(chain):
            places[name] = {"port": RELAY_PORT, "previous": ends[number], "next": ends[number + 2]}
    return places


@dataclass(frozen=True)
class NodePlan:
    """What a push does to one node: `action` is push, none or refuse; `summary` describes it, a line each."""

    action: str
    summary: tuple[str, ...]


def plan_push(
    node: Mapping[str, Any], name: str, *, reboot: bool, force: bool = False, when_idle: bool = False
) -> NodePlan:
    """Given a node's report and an image, return what a push would do there."""
    runs = f"runs {node['running']}" + ("" if node["current"] == node["running"] else ", which is not confirmed")
    if node.get("problem"):  # guard: a node that cannot take an image is left
        return NodePlan("refuse", (f"{runs}; {node['problem']}",))
    if not node.get("receives"):
        return NodePlan("refuse", (f"{runs}; it does not say what it would receive",))
    if node["image"] == name and node["current"] == node["running"] and node["receives"]["held"]:
        return NodePlan("none", (f"runs {name} already",))
    ready, settled = _pending(node, name, runs, reboot=reboot)
    if settled is not None:
        return settled
    there = sorted(
        {
            *(node.get("people") or ()),
            *(node.get("gpu_work") or ()),  # guard: work on GPUs is use
        }
    )
    if there and reboot and not force and not when_idle:  # guard: a node that is in use is not rebooted
        choice = "--when-idle waits, --force reboots all the same, --no-reboot only prepares"
        return NodePlan("refuse", (f"{runs}; in use by {', '.join(there)}: {choice}",))
    summary = [f"{runs}; {'is ready since an earlier run' if ready else _receives(node['receives'])}"]
    if there and reboot:
        summary.append(f"{'waits for' if when_idle else 'sends away'}: {', '.join(there)}")
    summary.append(f"boots {name} on trial" if reboot else f"tries {name} at its next boot")
    if name in (node.get("refused") or {}):
        summary.append(f"tries again what failed there: {node['refused'][name]}")
    return NodePlan("push", tuple(summary))


def _pending(node: Mapping[str, Any], name: str, runs: str, *, reboot: bool) -> tuple[bool, NodePlan | None]:
    """Whether an earlier run left the node ready for its reboot; and the plan where that alone settles it."""
    last = node.get("last") or {}
    tried = last.get("stage") == "pending" and node["running"] == last.get("root")
    ready = last.get("stage") == "pending" and not tried and node["trial"] == last.get("root")
    if (ready or tried) and last.get("image") != name:  # guard: a switch to another image is not pushed over
        waits = "is on trial" if tried else "waits for its reboot (gpuadmin rollback-image calls it off)"
        return ready, NodePlan("refuse", (f"{runs}; a switch to {last.get('root')} {waits}",))
    if tried:
        return ready, NodePlan("push", (f"{runs}, on trial since an earlier run; waiting for its outcome",))
    if ready and not reboot:
        return ready, NodePlan("none", (f"tries {name} at its next boot already",))
    return ready, None


def _receives(receives: Mapping[str, Any]) -> str:
    if receives["held"]:
        return "holds the image already"
    kind = "in full" if receives["parent"] is None else f"as the difference to {receives['parent']}"
    return f"receives {size_words(receives['bytes'])} {kind}"


def time_spent(steps: Mapping[str, float], last: Mapping[str, Any]) -> dict[str, float]:
    """Where one node's push spent its time: seconds by step.

    ``steps``: those that the node took in this run. ``last``: its record of the switch. ``reboot`` is what is between
    the last step and the start of the new kernel, with the waiting for people; ``boot`` goes on to the commit.
    """
    spent = dict(steps)
    if last.get("stage") == "confirmed" and {"time", "ended", "uptime"} <= last.keys():
        if steps:  # else an earlier run made the record, any time ago
            spent["reboot"] = max(0.0, round(last["ended"] - last["uptime"] - last["time"], 1))
        spent["boot"] = last["uptime"]
    return spent


def slowest_steps(spent: Mapping[str, Mapping[str, float]]) -> str:
    """Given each node's seconds by step, return what took a second or more, and where, longest first."""
    slowest: dict[str, tuple[float, str]] = {}
    for host, steps in spent.items():
        for step, seconds in steps.items():
            slowest[step] = max(slowest.get(step, (0.0, "")), (seconds, host))
    several = len([host for host, steps in spent.items() if steps]) > 1
    return ", ".join(
        f"{step} {seconds:.0f} s" + (f" ({host})" if several else "")
        for step, (seconds, host) in sorted(slowest.items(), key=lambda item: -item[1][0])
        if seconds >= 1
    )

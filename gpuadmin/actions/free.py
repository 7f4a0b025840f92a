"""Show where somebody can run now."""

from __future__ import annotations

from dataclasses import asdict

from gpuadmin.actions.shared.now import memory_words, plain_table
from gpuadmin.actions.shared.prometheus import Prometheus
from gpuadmin.actions.top import look
from gpuadmin.common.free import Room, rooms
from gpuadmin.common.text import counted, listed
from gpuadmin.display import make_console
from gpuadmin.options import Options
from gpuadmin.outcome import finish
from gpuadmin.session import opened


def free(options: Options, *, gpus: int, memory: int) -> int:
    """Ask Prometheus which devices nobody holds. Returns the exit code."""
    with opened("free", options, changes=False) as session:
        names = session.some("gpu")
        with Prometheus(session.site) as prometheus:
            nodes = look(prometheus, names)
        found = rooms(nodes, gpus, memory)
        unknown = {node.name: node.problem for node in nodes if node.problem is not None}
        if not options.json:
            _show(found, gpus, memory, list(unknown))
        result = {
            "nodes": {room.node.name: [asdict(device) for device in room.devices] for room in found},
            "unknown": unknown,
        }
        return finish(session, 0, result)


def _show(found: list[Room], gpus: int, memory: int, unknown: list[str]) -> None:
    console = make_console(json=False)
    if found:
        rows = [
            (room.node.name, str(len(room.devices)), device.index, device.name, memory_words(device))
            for room in found
            for device in room.devices
        ]
        console.print(plain_table(("Node", "Free", "GPU", "Model", "Memory in use"), rows, right=("Free",)))
    else:
        asked = counted(gpus, "free GPU") + (f" of {memory} GiB" if memory else "")
        console.print(f"No node has {asked}.")
    if unknown:
        console.print(f"Partly unknown because of a problem: {listed(unknown)} (gpuadmin top)")

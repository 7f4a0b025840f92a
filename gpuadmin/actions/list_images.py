"""Show the images of the store, and what every node runs, holds, will try or has refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gpuadmin.actions.shared.images import facts, variables
from gpuadmin.common.text import size_words
from gpuadmin.display import make_console, make_table
from gpuadmin.images.facts import Facts
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened


def list_images(options: Options) -> int:
    """Show store and nodes. Returns the exit code."""
    with opened("list-images", options, changes=False) as session:
        builder = PlanBuilder("List images")
        builder.add_all(session.some("gpu", "storage"), ["look at the images"])
        session.planned(builder.build())
        run = session.run("list-images", None, variables(session.site), check=True)
        found = facts(run, session.named("storage"), session.named("gpu"))
        store = {name: {k: v for k, v in entry.items() if k != "text"} for name, entry in found.store.items()}
        result = {"store": store, "nodes": dict(found.nodes), "silent": dict(found.silent)}
        return report(session, run, result, show=lambda: _show(found))


def _show(found: Facts) -> None:
    console = make_console(json=False)
    table = make_table("Image", "Built", "By", "From", "Packages", "Size", "Runs on", "Held by")
    for column in table.columns[:-2]:
        column.no_wrap = True
    for name, manifest in found.complete.items():
        changes = manifest["changes"]
        counts = "/".join(
            f"{sign}{len(changes[kind])}" for sign, kind in (("+", "added"), ("-", "removed"), ("~", "changed"))
        )
        table.add_row(
            name,
            f"{datetime.fromtimestamp(manifest['created']):%Y-%m-%d %H:%M}",
            str(manifest["by"]),
            (manifest["parent"] or {"name": "—"})["name"],
            counts,
            ", ".join(size_words(stream["bytes"]) for stream in manifest["streams"]),
            ", ".join(host for host, node in found.nodes.items() if node["image"] == name) or "—",
            ", ".join(host for host, node in found.nodes.items() if node["held"].get(name) == manifest["uuid"]) or "—",
        )
    console.print(table)
    if found.store_known.unknown:
        console.print(f"What the store has is not known: {found.store_known.summary}")
    if found.nodes_known.unknown:
        console.print(f"Not known what they run: {found.nodes_known.summary}")
    for name, entry in found.store.items():
        if entry["problem"]:
            console.print(f"Not complete in the store: {name} ({entry['problem']})")
    for host, node in found.nodes.items():
        for line in _remarks(node):
            console.print(f"{host} runs {node['running']}{line}")


def _remarks(node: Mapping[str, Any]) -> list[str]:
    """What is wrong with a node; with an empty first line, only what it runs."""
    last = node.get("last") or {}
    lines = []
    if node["current"] != node["running"]:
        lines.append(f", not confirmed; the next boot takes {node['trial'] or node['current']}")
    elif node["trial"]:
        lines.append(f"; its next boot tries {node['trial']}")
    if last.get("stage") == "failed":
        lines.append(f"; {last.get('image')} failed: {last.get('reason')}")
    elif last.get("stage") == "confirmed" and last.get("reason"):
        lines.append(f"; {last['reason']}")
    lines += [f"; {difference}" for difference in node.get("drift") or ()]
    return lines or [""]

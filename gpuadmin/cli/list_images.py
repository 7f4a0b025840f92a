"""gpuadmin list-images"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from gpuadmin.cli._options import Options, run_options

if TYPE_CHECKING:
    from gpuadmin.images import Facts
    from gpuadmin.run import RunResult


@click.command("list-images")
@run_options(changes=False)
@click.pass_context
def command(ctx: click.Context, options: Options) -> None:
    """Show the images of the store, and what every node runs, holds, will try or has refused. Changes nothing."""
    from gpuadmin.cli._images import facts, variables
    from gpuadmin.cli._verb import Work, opened, perform
    from gpuadmin.plan import PlanBuilder

    with opened("list-images", options, changes=False) as verb:
        builder = PlanBuilder("List images")
        builder.add_all(verb.named("gpu", "storage"), ["look at the images"])
        found: list[Facts] = []

        def result(run: RunResult) -> dict[str, Any]:
            found.append(facts(run, verb.named("storage"), verb.named("gpu")))
            store = {name: {k: v for k, v in entry.items() if k != "text"} for name, entry in found[0].store.items()}
            return {"store": store, "nodes": dict(found[0].nodes), "silent": dict(found[0].silent)}

        code = perform(
            verb,
            Work(
                plan=builder.build(), variables=variables(verb.site), result=result, check_only=True, show_table=False
            ),
        )
        if not options.json and found:
            _show(found[0])
        ctx.exit(code)


def _show(found: Facts) -> None:
    from rich import box
    from rich.table import Table

    from gpuadmin.console import make_console
    from gpuadmin.words import size_words

    console = make_console(json=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("Image", "Built", "By", "From", "Packages", "Size", "Runs on", "Held by"):
        table.add_column(title, no_wrap=title not in ("Runs on", "Held by"))
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
        console.print(f"What the store has is not known: {found.store_known.words}")
    if found.nodes_known.unknown:
        console.print(f"Not known what they run: {found.nodes_known.words}")
    for name, entry in found.store.items():
        if entry["problem"]:
            console.print(f"Not complete in the store: {name} ({entry['problem']})")
    for host, node in found.nodes.items():
        for line in _remarks(node):
            console.print(f"{host} runs {node['running']}{line}")


def _remarks(node: dict[str, Any] | Any) -> list[str]:
    """What is to be said of a node; an empty first line says only what it runs."""
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
    lines += [f"; {words}" for words in node.get("drift") or ()]
    return lines or [""]

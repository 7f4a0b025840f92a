"""Show the images of the store and of the nodes, or one image: what is in it, and whether it is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuadmin.actions.shared.images import facts, in_store, variables
from gpuadmin.common.text import clock, counted, size_words
from gpuadmin.console import echo
from gpuadmin.display import make_console, make_table
from gpuadmin.errors import ExitCode
from gpuadmin.images.facts import Facts, check_name
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened
from gpuadmin.text import one_line


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


def show_image(options: Options, name: str) -> int:
    """Show what is in an image of the store, and what changed. Returns the exit code."""
    with opened("list-images", options, changes=False) as session:
        builder = PlanBuilder(f"Show the image {check_name(name)}")
        builder.add_all(session.storage(), ["look at the store"])
        session.planned(builder.build())
        run = session.look("list-images", session.storage(), variables(session.site))
        found = in_store(facts(run, session.named("storage"), []), name)
        return report(session, run, found, show=lambda: echo("\n".join(describe(found))))


def verify_image(options: Options, name: str) -> int:
    """Verify an image's signature, digests and chain. Returns the exit code: 1 where something is not right."""
    with opened("list-images", options, changes=False) as session:
        builder = PlanBuilder(f"Verify the image {check_name(name)}")
        builder.add_all(session.storage(), ["verify it in the store"])
        session.planned(builder.build())
        given = variables(session.site, gpuadmin_verify_images=[name])
        run = session.run("list-images", session.storage(), given, check=True)
        answers = run.reported("verified").values()
        problems = [one for found in answers for one in found.get(name, ["the store did not say anything of it"])]
        verdict = run.code or (ExitCode.ERROR if problems else ExitCode.DONE)

        def show() -> None:
            for problem in problems:
                echo(one_line(f"{name}: {problem}"))
            if answers and not problems:
                echo(f"{name}: signature, digests and chain are right")
            for host, reason in run.bad.items():
                echo(one_line(f"Whether {name} is right is not known: {host} ({reason})"))

        return report(session, run, {"problems": problems}, code=verdict, show=show)


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
            clock(manifest["created"]),
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


def describe(manifest: Mapping[str, Any]) -> list[str]:
    """Given a manifest, return lines for people."""
    parent = manifest["parent"]
    built = clock(manifest["created"])
    system = f"{manifest['distribution']} {manifest['version']}, {manifest['machine']}, kernel {manifest['kernel']}"
    lines = [
        f"{manifest['name']}: {system}",
        f"built {built} by {manifest['by']}, uuid {manifest['uuid']}",
        f"{size_words(manifest['size'])}, {counted(len(manifest['packages']), 'package')}"
        + (f", made from {parent['name']}" if parent else ", without a parent"),
    ]
    for stream in manifest["streams"]:
        kind = "in full" if stream["parent"] is None else f"difference to {stream['parent']['name']}"
        lines.append(f"stream {stream['file']}: {size_words(stream['bytes'])}, {kind}")
    changes = manifest["changes"]
    lines += [f"+ {name} {version}" for name, version in changes["added"].items()]
    lines += [f"- {name} {version}" for name, version in changes["removed"].items()]
    lines += [f"~ {name} {before} → {after}" for name, (before, after) in changes["changed"].items()]
    return lines

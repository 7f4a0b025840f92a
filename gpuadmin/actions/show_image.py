"""Show what is in an image, and what changed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gpuadmin.actions.shared.images import facts, in_store, variables
from gpuadmin.common.text import counted, size_words
from gpuadmin.console import echo
from gpuadmin.images.facts import check_name
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened


def show_image(options: Options, name: str) -> int:
    """Show an image of the store. Returns the exit code."""
    with opened("show-image", options, changes=False) as session:
        builder = PlanBuilder(f"Show the image {check_name(name)}")
        builder.add_all(session.storage(), ["look at the store"])
        session.planned(builder.build())
        run = session.look("show-image", None, variables(session.site))
        found = in_store(facts(run, session.named("storage"), []), name)
        return report(session, run, found, show=lambda: echo("\n".join(describe(found))))


def describe(manifest: Mapping[str, Any]) -> list[str]:
    """Given a manifest, return lines for people."""
    parent = manifest["parent"]
    built = f"{datetime.fromtimestamp(manifest['created']):%Y-%m-%d %H:%M}"
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

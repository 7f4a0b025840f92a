"""gpuadmin show-image"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from gpuadmin.cli._options import Options, run_options
from gpuadmin.console import say
from gpuadmin.words import counted

if TYPE_CHECKING:
    from gpuadmin.run import RunResult


@click.command("show-image")
@click.argument("name")
@run_options(changes=False)
@click.pass_context
def command(ctx: click.Context, name: str, options: Options) -> None:
    """Show an image: its kernel, its streams, and the packages that differ from its parent's. Changes nothing."""
    from gpuadmin.cli._images import facts, in_store, variables
    from gpuadmin.cli._verb import Work, opened, perform, storage_of
    from gpuadmin.images import check_name
    from gpuadmin.plan import PlanBuilder

    with opened("show-image", options, changes=False) as verb:
        builder = PlanBuilder(f"Show the image {check_name(name)}")
        builder.add_all(storage_of(verb), ["look at the store"])
        found: list[dict[str, Any]] = []

        def result(run: RunResult) -> dict[str, Any]:
            found.append(in_store(facts(run, verb.named("storage"), []), name))
            return found[0]

        code = perform(
            verb,
            Work(
                plan=builder.build(), variables=variables(verb.site), result=result, check_only=True, show_table=False
            ),
        )
        if not options.json and found:
            for line in describe(found[0]):
                say(line)
        ctx.exit(code)


def describe(manifest: dict[str, Any]) -> list[str]:
    """Given a manifest, return lines for people."""
    from gpuadmin.words import size_words

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

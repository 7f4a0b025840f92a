"""gpuadmin build-image"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuadmin.cli._options import Options, run_options

if TYPE_CHECKING:
    from gpuadmin.cli._verb import Verb, Work
    from gpuadmin.images import Facts


@click.command("build-image")
@click.argument("name", required=False)
@click.option("--upgrade", is_flag=True, help="Upgrade all packages.")
@click.option("--install", "packages", multiple=True, metavar="PACKAGE", help="Install a package; may be repeated.")
@click.option("--full", is_flag=True, help="Send the whole image as well, for nodes that hold none of its parents.")
@click.option("--no-trial", is_flag=True, help="Do not boot the golden node into it first.")
@run_options()
@click.pass_context
def command(
    ctx: click.Context,
    name: str | None,
    upgrade: bool,
    packages: tuple[str, ...],
    full: bool,
    no_trial: bool,
    options: Options,
) -> None:
    """Build an image: a copy of the golden node's root, changed, booted there on trial, sealed, signed and stored.

    The running root is not touched. Without NAME it is named after today. Run again, a build that was cut off goes on;
    with --full, an image that is there already gets its full stream.
    """
    from gpuadmin.cli._images import look, require_storage
    from gpuadmin.cli._verb import opened, perform
    from gpuadmin.images import check_name, new_name

    with opened("build-image", options) as verb:
        require_storage(verb)
        found = look(verb)
        chosen = check_name(name) if name else new_name([*found.store])
        ctx.exit(perform(verb, _work(verb, found, chosen, upgrade, packages, full, not no_trial)))


def _work(
    verb: Verb, found: Facts, name: str, upgrade: bool, packages: tuple[str, ...], full: bool, trial: bool
) -> Work:
    """Given what there is, return the work of building an image."""
    from gpuadmin.cli._images import signing_key, variables
    from gpuadmin.cli._verb import Work
    from gpuadmin.errors import ConfigError, UnreachableError
    from gpuadmin.images import build_phases, choose_parent
    from gpuadmin.plan import PlanBuilder
    from gpuadmin.who import who

    golden = verb.site.inventory.group("golden")
    if len(golden) != 1:
        raise ConfigError(
            f"{len(golden)} hosts are in the group golden; images are built on one",
            hint="choose it in inventory/hosts.yml",
        )
    node = found.nodes.get(golden[0].name)
    if node is None:
        why = found.silent.get(golden[0].name, "it was not asked")
        raise UnreachableError(f"the golden node {golden[0].name} is not to be had: {why}")
    key = signing_key(verb.site)
    if not key.exists():
        raise ConfigError(f"{key}: there is no key to sign images with", hint="gpuadmin prepare-root makes it")
    phases = build_phases(node, name)
    targets = {host: report for host, report in found.nodes.items() if host != golden[0].name}
    stored = (found.store.get(name) or {}).get("manifest")
    held = {**node, "held": {other: uuid for other, uuid in node["held"].items() if other != name}}
    others = {
        host: {**report, "held": {k: v for k, v in report["held"].items() if k != name}}
        for host, report in targets.items()
    }
    parent = (stored["parent"] or {}).get("name") if stored else choose_parent(held, others, found)
    builder = PlanBuilder(f"Build the image {name} on {golden[0].name}")
    if "main" in phases:
        changes = ["upgrade all packages"] if upgrade else []
        changes += [f"install {', '.join(packages)}"] if packages else []
        builder.add(
            golden[0].name, f"copy the root {node['running']}, and in the copy: {'; '.join(changes) or 'nothing'}"
        )
        if trial:
            builder.add(golden[0].name, f"reboot into {name} on trial; it comes back by itself if that fails")
        else:
            builder.warn("the golden node does not try the image; nodes do")
    ways = [f"as its difference to {parent}"] if parent else []
    ways += ["in full"] if full or not parent else []
    builder.add(golden[0].name, f"seal {name} and send it to the store, {' and '.join(ways)}")
    for host, why in found.silent.items():
        builder.warn(f"{host} was not asked what it holds ({why}); it may need a full stream")
    if node["people"] and "main" in phases and trial:
        builder.warn(f"logged in on {golden[0].name}, and warned before the reboot: {', '.join(node['people'])}")

    extra: dict[str, Any] = {
        "gpuadmin_image": name,
        "gpuadmin_phases": phases,
        "gpuadmin_packages": list(packages),
        "gpuadmin_upgrade": upgrade,
        "gpuadmin_full": full or not parent,
        "gpuadmin_trial": trial,
        "gpuadmin_parents": [parent] if parent else [],
        "gpuadmin_who": who(),
        "gpuadmin_signing_key": str(key),
        "gpuadmin_reason": f"This node reboots now to try a new system ({name}).",
    }
    return Work(plan=builder.build(), variables=variables(verb.site, **extra), result=lambda run: {"image": name})

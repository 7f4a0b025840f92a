"""gpuadmin rollback-image"""

from __future__ import annotations

import click

from gpuadmin.cli._options import Options, run_options


@click.command("rollback-image")
@click.option("--canary", type=click.IntRange(0), default=1, show_default=True, help="Nodes that go first.")
@click.option("--batch", default="100%", show_default=True, metavar="N|%", help="How many of the others at a time.")
@click.option("--force", is_flag=True, help="Reboot nodes although people are logged in.")
@run_options()
@click.pass_context
def command(ctx: click.Context, canary: int, batch: str, force: bool, options: Options) -> None:
    """Move nodes back to the root that they had confirmed before the one they run. Accounts and identity stay.

    On a node that is set to try an image at its next boot, that is called off instead."""
    from gpuadmin.cli._images import NOTICE, look, only, variables
    from gpuadmin.cli._verb import Work, opened, perform
    from gpuadmin.images import batches
    from gpuadmin.plan import PlanBuilder

    with opened("rollback-image", options) as verb:
        found = look(verb)
        builder = PlanBuilder("Move nodes back to the root they ran before")
        nodes = []
        for host in verb.named("gpu"):
            node = found.nodes.get(host)
            if node is None:
                builder.warn(f"{host} is left out: {found.silent.get(host, 'it did not answer')}")
            elif node["trial"]:
                nodes.append(host)
                builder.add(host, f"call off the switch to {node['trial']}, which waits for a reboot")
            elif node["rollback"] is None:
                builder.warn(f"{host} is left out: it has no confirmed root before {node['running']}")
            elif (there := sorted({*node["people"], *node["gpu_work"]})) and not force:
                builder.warn(f"{host} is left out: in use by {', '.join(there)} (--force reboots all the same)")
            else:
                nodes.append(host)
                builder.add(host, f"reboot from {node['running']} into {node['rollback']}")
        sizes = batches(len(nodes), canary=canary, batch=batch)
        extra = {
            "gpuadmin_switch_action": "rollback",
            "gpuadmin_batches": sizes or [1],
            "gpuadmin_force": force,
            "gpuadmin_reason": NOTICE.format(name="rollback"),
        }
        ctx.exit(
            perform(
                only(verb, nodes),
                Work(
                    plan=builder.build(),
                    variables=variables(verb.site, **extra),
                    unknown=[found.nodes_known.among(verb.named("gpu"))],
                ),
            )
        )

"""gpuadmin push-image"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuadmin.cli._options import Options, run_options
from gpuadmin.console import say

if TYPE_CHECKING:
    from gpuadmin.run import RunResult

ADVICE = "run it again to go on, or build a corrected image; gpuadmin list-images says what each node runs"


@click.command("push-image")
@click.argument("name")
@click.option("--canary", type=click.IntRange(0), default=1, show_default=True, help="Nodes that go first.")
@click.option("--batch", default="100%", show_default=True, metavar="N|%", help="How many of the others at a time.")
@click.option("--no-reboot", is_flag=True, help="Only prepare; the next boot, whenever it comes, tries the image.")
@click.option("--when-idle", is_flag=True, help="Wait with each reboot until nobody is on the node, for a day at most.")
@click.option("--force", is_flag=True, help="Reboot nodes although people or their GPU work are on them.")
@click.option("--full", is_flag=True, help="Fetch the full stream, even where the difference would do.")
@click.option("--deadline", type=click.IntRange(60), help="Seconds that a trial may take.  [default: images.deadline]")
@run_options()
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    canary: int,
    batch: str,
    no_reboot: bool,
    when_idle: bool,
    force: bool,
    full: bool,
    deadline: int | None,
    options: Options,
) -> None:
    """Move nodes to an image: fetch, prove and receive it, boot it on trial, keep it if the health checks pass.

    A node whose trial fails comes back by itself on the root it ran. The first batch with such a node is the last; run
    again, it goes on where it stopped, and nodes that run the image are left alone.
    """
    from gpuadmin.chain_key import make_key
    from gpuadmin.cli._images import NOTICE, WAITING, in_store, look, only, variables
    from gpuadmin.cli._verb import Work, opened, perform
    from gpuadmin.errors import RefusedError
    from gpuadmin.images import batches, chains, check_name, links, plan_push, slowest_steps, time_spent
    from gpuadmin.plan import PlanBuilder

    if when_idle and force:
        raise click.UsageError("--when-idle waits and --force does not: give one of them")
    with opened("push-image", options) as verb:
        found = look(verb, check_name(name))
        in_store(found, name)
        builder = PlanBuilder(f"Move nodes to the image {name}")
        nodes, refused = [], []
        for host in verb.named("gpu"):
            if host not in found.nodes:
                builder.warn(f"{host} is left out: {found.silent.get(host, 'it did not answer')}")
                continue
            plan = plan_push(found.nodes[host], name, reboot=not no_reboot, force=force, when_idle=when_idle)
            if plan.action == "push":
                nodes.append(host)
                builder.add_all([host], plan.words)
            else:
                builder.warn(
                    f"{host} is left out: {plan.words[0]}" if plan.action == "refuse" else f"{host} {plan.words[0]}"
                )
                refused += [host] if plan.action == "refuse" else []
        if refused and not nodes:
            raise RefusedError("; ".join(builder.warnings))
        sizes = batches(len(nodes), canary=canary, batch=batch)
        relay = verb.site.settings.images.relay_port
        addresses = {host.name: host.cluster_address for host in verb.hosts}
        along = chains({host: found.nodes[host] for host in nodes}, sizes, addresses, full=full) if relay else []
        for chain in along:
            builder.warn(f"the full image goes along {' → '.join(chain)}; who gets none of it there asks the store")
        if len(sizes) > 1:
            builder.warn(f"in batches of {', '.join(str(size) for size in sizes)}; it stops after the first that fails")

        def result(run: RunResult) -> dict[str, Any]:
            untouched = [host for host in nodes if host not in run.hosts]
            if untouched:
                say(f"Not touched: {', '.join(untouched)}", err=True)
            spent = {
                host: time_spent(
                    (entry.reports.get("switch") or {}).get("seconds") or {},
                    (entry.reports.get("node") or {}).get("last") or {},
                )
                for host, entry in run.hosts.items()
            }
            if longest := slowest_steps(spent):
                say(f"Where the time went: {longest}", err=True)
            return {"untouched": untouched, "seconds": spent}

        extra: dict[str, Any] = {
            "gpuadmin_image": name,
            "gpuadmin_full": full,
            "gpuadmin_links": links(along, addresses, relay or 0),
            "gpuadmin_chain_key": make_key() if along else "",
            "gpuadmin_reboot": not no_reboot,
            "gpuadmin_force": force,
            "gpuadmin_when_idle": when_idle,
            "gpuadmin_batches": sizes or [1],
            "gpuadmin_reason": NOTICE.format(name=name),
            "gpuadmin_waiting": WAITING.format(name=name),
        }
        if deadline is not None:
            extra["gpuadmin_deadline"] = deadline
        work = Work(
            plan=builder.build(),
            variables=variables(verb.site, **extra),
            result=result,
            advice=ADVICE,
            unknown=[found.nodes_known.among(verb.named("gpu"))],
        )
        ctx.exit(perform(only(verb, nodes), work))

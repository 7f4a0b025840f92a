"""gpuadmin prune-images"""

from __future__ import annotations

import click

from gpuadmin.cli._options import Options, run_options


@click.command("prune-images")
@click.option("--keep", type=click.IntRange(1), help="How many of the newest images stay.  [default: images.keep]")
@run_options()
@click.pass_context
def command(ctx: click.Context, keep: int | None, options: Options) -> None:
    """Delete images and roots that nobody needs, from the store and the nodes.

    Never what runs or boots, the last confirmed root before it, or a parent that a kept image still needs.
    """
    from gpuadmin.cli._images import look, variables
    from gpuadmin.cli._verb import Work, opened, perform
    from gpuadmin.images import prune_store
    from gpuadmin.plan import PlanBuilder

    with opened("prune-images", options) as verb:
        wanted = keep or verb.site.settings.images.keep
        found = look(verb)
        stay = "image stays" if wanted == 1 else f"{wanted} images stay"
        builder = PlanBuilder(f"Delete what is not needed; the newest {stay}", destroys=True)
        names = prune_store(found, wanted)
        builder.add_all(verb.named("storage"), [f"delete the image {name} from the store" for name in names])
        if found.silent:
            builder.warn(
                f"nothing is deleted from the store: {', '.join(found.silent)} did not answer, and may need it"
            )
        for host in verb.named("gpu"):
            if host in found.nodes:
                prunable = found.nodes[host]["prunable"]
                builder.add_all([host], [f"delete the root {name}" for name in prunable["roots"]])
                builder.add_all([host], [f"delete the image {name}" for name in prunable["images"]])
        extra = {"gpuadmin_delete_images": names, "gpuadmin_keep": wanted}
        ctx.exit(
            perform(
                verb,
                Work(
                    plan=builder.build(),
                    variables=variables(verb.site, **extra),
                    unknown=[found.store_known, found.nodes_known],
                ),
            )
        )

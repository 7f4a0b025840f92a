"""Delete images and roots that nobody needs."""

from __future__ import annotations

from gpuadmin.actions.shared.images import look, variables
from gpuadmin.images.prune import prune_store
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened


def prune_images(options: Options, keep: int | None) -> int:
    """Keep that many of the newest images, or images.keep, and what still needs others. Returns the exit code."""
    with opened("prune-images", options) as session:
        wanted = keep or session.site.settings.images.keep
        found = look(session)
        stay = "image stays" if wanted == 1 else f"{wanted} images stay"
        builder = PlanBuilder(f"Delete what is not needed; the newest {stay}", destroys=True)
        names = prune_store(found, wanted)
        builder.add_all(session.named("storage"), [f"delete the image {name} from the store" for name in names])
        if found.silent:
            builder.warn(
                f"nothing is deleted from the store: {', '.join(found.silent)} did not answer, and may need it"
            )
        for host in session.named("gpu"):
            if host in found.nodes:
                prunable = found.nodes[host].get("prunable", {})
                builder.add_all([host], [f"delete the root {name}" for name in prunable.get("roots", ())])
                builder.add_all([host], [f"delete the image {name}" for name in prunable.get("images", ())])
        unknown = [found.store_known, found.nodes_known]
        if not session.plan(builder.build()):
            return nothing(session, unknown)
        session.confirm()  # guard: prune-images asks before it does something
        given = variables(session.site, gpuadmin_delete_images=names, gpuadmin_keep=wanted)
        run = session.run("prune-images", None, given, check=session.check)
        return report(session, run, unknown=unknown)

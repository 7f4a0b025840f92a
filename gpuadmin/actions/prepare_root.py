"""Check and complete the disk layout that images need."""

from __future__ import annotations

from gpuadmin.actions.shared.images import require_storage, signing_key, variables
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened


def prepare_root(options: Options) -> int:
    """Prepare storage host and nodes for images. Returns the exit code."""
    with opened("prepare-root", options) as session:
        require_storage(session)
        site = session.site
        key = signing_key(site)
        builder = PlanBuilder(f"Prepare the hosts of {site.settings.name} for images")
        if not key.exists():
            builder.add("site", f"make the key that signs images: {key.name}")
        builder.add_all(session.named("storage"), [f"image store {site.settings.images.store}, for root alone"])
        builder.add_all(
            session.named("gpu"),
            ["check the disk layout; where it is fit: boot units, health checks, identity in the state"],
        )
        if not session.plan(builder.build()):
            return nothing(session)
        session.confirm()  # guard: prepare-root asks before it does something
        if not session.check:
            signing_key(site, make=True)
        run = session.run("prepare-root", None, variables(site), check=session.check)
        layout = {name: host.reports.get("layout") for name, host in run.hosts.items() if host.reports}
        return report(session, run, {"layout": layout})

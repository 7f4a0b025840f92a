"""Move what a wipe could not delete to the attic."""

from __future__ import annotations

from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened


def clear_leftovers(options: Options) -> int:
    """Clear what wipes left. Returns the exit code."""
    with opened("clear-leftovers", options) as session:
        builder = PlanBuilder("Clear what wipes left")
        attic = f"{session.site.settings.homes.export}/.gpuadmin-attic"
        builder.add_all(session.storage(), [f"move what wipes left to {attic}"])
        session.plan(builder.build())
        session.predict("clear-leftovers", None, {})
        session.confirm()  # guard: clear-leftovers asks before it does something
        run = session.run("clear-leftovers", None, {}, check=session.check)
        return report(session, run, {"cleared": dict(run.reported("cleared"))})

"""Pack what a wipe could not delete into archives, and only then delete it."""

from __future__ import annotations

from pathlib import PurePosixPath

from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened


def clear_leftovers(options: Options) -> int:
    """Clear what wipes left. Returns the exit code."""
    with opened("clear-leftovers", options) as session:
        archive = PurePosixPath(session.site.settings.homes.export).parent / "archive"
        builder = PlanBuilder("Clear what wipes left", destroys=True)
        builder.add_all(session.storage(), [f"pack what wipes left into {archive}, compare, and then delete it"])
        session.plan(builder.build())
        session.predict("clear-leftovers", None, {})
        session.confirm()  # guard: clear-leftovers asks before it does something
        run = session.run("clear-leftovers", None, {}, check=session.check)
        return report(session, run, {"cleared": dict(run.reported("cleared"))})

"""Back the homes up now."""

from __future__ import annotations

from datetime import UTC, datetime

from gpuadmin.actions.shared.backups import backup_result
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.semester.planner import backup_name
from gpuadmin.session import opened


def backup(options: Options, *, label: str, verify: bool) -> int:
    """Make a backup whose name ends with the label. Returns the exit code."""
    with opened("backup", options) as session:
        name = backup_name(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), label)
        builder = PlanBuilder(f"Back the homes of {session.site.settings.name} up as {name}")
        builder.add_all(session.storage(), ["snapshot of all homes, a manifest of each"])
        if verify:
            builder.add_all(
                session.named("storage"), ["read everything again, and compare each file with that manifest"]
            )
        builder.add_all(session.named("backup"), ["receive the second copy and verify it"])
        if not session.named("backup"):
            builder.warn("no host is in the group backup: there is no second copy")
        session.plan(builder.build())
        session.confirm()  # guard: backup asks before it does something
        wanted = {"name": name, **({} if verify else {"users": []})}
        run = session.run("backup", None, {"gpuadmin_backup": wanted}, check=session.check)
        return report(session, run, backup_result(run))

"""Read a backup and compare it with its manifests."""

from __future__ import annotations

from collections.abc import Sequence

from gpuadmin.actions.shared.backups import backup_result
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened


def verify_backup(options: Options, name: str | None, users: Sequence[str]) -> int:
    """Verify the named backup, or the newest, and in it the homes of these users, or all. Returns the exit code."""
    with opened("verify-backup", options) as session:
        builder = PlanBuilder(f"Verify the backup {name}" if name else "Verify the newest backup")
        whom = f"the home of {', '.join(users)}" if users else "every home"
        builder.add_all(
            session.storage(),
            [f"read {whom} in it, and compare each file with what was backed up (size, owner, checksum)"],
        )
        session.plan(builder.build())
        session.confirm()
        wanted = {key: value for key, value in (("name", name), ("users", list(users))) if value}
        run = session.run("verify-backup", None, {"gpuadmin_backup": wanted}, check=session.check)
        return report(session, run, backup_result(run))

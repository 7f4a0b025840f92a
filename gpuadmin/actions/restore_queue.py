"""Bring the queue's accounting back from a backup."""

from __future__ import annotations

from gpuadmin.actions.restore_home import BACKUP
from gpuadmin.actions.shared.queue import controller
from gpuadmin.common.text import the_page
from gpuadmin.config.queue import saved
from gpuadmin.errors import ConfigError
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened


def restore_queue(options: Options, backup: str | None) -> int:
    """Restore from the named backup, or from the newest verified one. Returns the exit code."""
    with opened("restore-queue", options) as session:
        if backup is not None and not BACKUP.fullmatch(backup):
            raise ConfigError(f"--from {backup[:80]!r}: is not the name of a backup", hint="gpuadmin list-backups")
        host = controller(session)
        if not saved(session.site.settings, session.site.inventory.hosts):
            raise ConfigError(
                f"no backup has the accounting of {host}: only what is on the storage host is backed up",
                hint=f"{the_page('slurm')} says how a dump of your own is loaded",
            )
        builder = PlanBuilder(f"Restore the queue's accounting from {backup or 'the newest verified backup'}")
        builder.add(host, "load it beside the database that is there, compare it, and put it in its place")
        builder.add(host, "bring Slurm's accounts to the people of users.yml")
        given = {"gpuadmin_restore_queue": {"backup": backup}}
        session.plan(builder.build())
        advice = "the table says why; which backups there are: gpuadmin list-backups _slurm"
        session.predict("restore-queue", [host], given, advice)
        session.confirm()  # guard: restore-queue asks before it does something
        run = session.run("restore-queue", [host], given, check=session.check)
        restored = next(iter(run.reported("restored").values()), None)
        return report(session, run, {} if restored is None else {"restored": restored}, advice=advice)

"""gpuadmin verify-backup"""

from __future__ import annotations

import click

from gpuadmin.cli._options import Options, run_options


@click.command("verify-backup")
@click.argument("name", metavar="BACKUP", required=False)
@click.option("--user", "users", metavar="USER", multiple=True, help="Only this home; repeatable. [default: all]")
@run_options()
@click.pass_context
def command(ctx: click.Context, name: str | None, users: tuple[str, ...], options: Options) -> None:
    """Read a backup (the newest, if none is named) and compare every file with the manifest."""
    from gpuadmin.cli._backups import backup_result
    from gpuadmin.cli._verb import Work, opened, perform, storage_of
    from gpuadmin.plan import PlanBuilder

    with opened("verify-backup", options) as verb:
        builder = PlanBuilder(f"Verify the backup {name or 'that is the newest'}")
        whom = ", ".join(users) or "every home"
        builder.add_all(storage_of(verb), [f"read {whom} and compare with the manifest"])
        wanted = {key: value for key, value in (("name", name), ("users", list(users))) if value}
        work = Work(plan=builder.build(), variables={"gpuadmin_backup": wanted}, result=backup_result)
        ctx.exit(perform(verb, work))

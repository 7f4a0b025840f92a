"""gpuadmin backup"""

from __future__ import annotations

import click

from gpuadmin.cli._options import Options, run_options


@click.command("backup")
@click.option("--label", metavar="WORD", default="manual", show_default=True, help="A word for the backup's name.")
@click.option("--verify/--no-verify", default=True, help="Read every home a second time and compare. [default: yes]")
@run_options()
@click.pass_context
def command(ctx: click.Context, label: str, verify: bool, options: Options) -> None:
    """Back the homes up now: a read-only snapshot, a manifest of every home, and the second copy if there is a host."""
    import re
    from datetime import UTC, datetime

    from gpuadmin.cli._backups import backup_result
    from gpuadmin.cli._verb import Work, opened, perform, storage_of
    from gpuadmin.plan import PlanBuilder
    from gpuadmin.semester.planner import backup_name

    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?", label) or label == "daily":
        raise click.BadParameter(
            "use small letters, digits, '.' and '-'; 'daily' is the timer's", param_hint="--label"
        )  # fmt: skip
    with opened("backup", options) as verb:
        name = backup_name(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), label)
        builder = PlanBuilder(f"Back the homes of {verb.site.settings.name} up as {name}")
        builder.add_all(storage_of(verb), ["snapshot of all homes, a manifest of each"])
        if verify:
            builder.add_all(verb.named("storage"), ["read everything and compare it with the manifests"])
        builder.add_all(verb.named("backup"), ["receive the second copy and verify it"])
        if not verb.named("backup"):
            builder.warn("no host is in the group backup: there is no second copy")
        work = Work(
            plan=builder.build(),
            variables={"gpuadmin_backup": {"name": name, **({} if verify else {"users": []})}},
            result=backup_result,
        )
        ctx.exit(perform(verb, work))

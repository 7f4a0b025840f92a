"""gpuadmin remove-user"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import Options, run_options


@click.command("remove-user")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=people())
@click.option(
    "--archive-home",
    is_flag=True,
    help="Pack each home into a verified archive on the storage host, and only then remove it.",
)
@run_options()
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], archive_home: bool, options: Options) -> None:
    """Lock and remove accounts everywhere. Homes and Docker data stay, unless --archive-home.

    The uid is kept out of use in users.yml, because files on disks and in backups still carry it.
    """
    from gpuadmin import accounts
    from gpuadmin.cli._accounts import converge
    from gpuadmin.cli._verb import opened, perform
    from gpuadmin.errors import ConfigError

    with opened("remove-user", options) as verb:
        site = verb.site
        accounts.refuse_protected(site.settings, names, "remove-user")
        registered = [name for name in dict.fromkeys(names) if site.registry.find(name)]
        leaving = {user.name: user.uid for user in accounts.known(site.registry, registered)}
        # somebody whose removal was interrupted, or who was not reached on a node, is named again
        retired = {entry.name: entry.uid for entry in site.registry.registry.retired}
        again = {name: retired[name] for name in names if name not in leaving and name in retired}
        accounts.known(site.registry, [name for name in names if name not in again])
        registry = site.registry.changed(site.settings, retire=leaving) if leaving else site.registry
        absent = [(name, uid) for name, uid in {**leaving, **again}.items() if uid is not None]
        extra = {}
        if archive_home:
            if options.limit and not verb.named("storage"):
                raise ConfigError("--archive-home works on the storage host, which --limit leaves out")
            extra["gpuadmin_archive_homes"] = [{"name": name, "uid": uid} for name, uid in absent]
        work = converge(
            verb,
            registry,
            [],
            title=f"Remove {len(absent)} account{'' if len(absent) == 1 else 's'} from {site.settings.name}",
            absent=absent,
            extra=extra,
            archive_homes=archive_home,
        )
        ctx.exit(perform(verb, work))

"""gpuadmin remove-user"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import Options, run_options
from gpuadmin.words import counted

if TYPE_CHECKING:
    from gpuadmin.cli._verb import Verb, Work


@click.command("remove-user")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=people())
@click.option(
    "--archive-home",
    is_flag=True,
    help="Pack each home into a verified archive on the storage host, and only then remove it.",
)
@click.option(
    "--forget",
    is_flag=True,
    help="Of people who were removed: let their uid be given to others. Nothing of theirs must be left, in no backup.",
)
@run_options()
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], archive_home: bool, forget: bool, options: Options) -> None:
    """Lock and remove accounts everywhere. Homes and Docker data stay, unless --archive-home.

    The uid is kept out of use in users.yml, because files on disks and in backups still carry it.
    """
    from gpuadmin import accounts
    from gpuadmin.cli._accounts import converge
    from gpuadmin.cli._verb import opened, perform
    from gpuadmin.errors import ConfigError

    if forget:
        if archive_home:
            raise click.UsageError("--forget is for people whose home is gone: leave --archive-home out")
        with opened("remove-user", options, forget=names) as verb:
            ctx.exit(perform(verb, _forget(verb, list(dict.fromkeys(names)))))
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
            title=f"Remove {counted(len(absent), 'account')} from {site.settings.name}",
            absent=absent,
            extra=extra,
            archive_homes=archive_home,
        )
        ctx.exit(perform(verb, work))


def _forget(verb: Verb, names: list[str]) -> Work:
    """The work of forgetting whose uids were theirs: in users.yml, in runs/, and on the storage host."""
    from gpuadmin.cli._accounts import converge, refuse_carried
    from gpuadmin.config.memory import owners, recall
    from gpuadmin.errors import ConfigError

    site = verb.site
    present = [name for name in names if site.registry.find(name)]
    if present:
        raise ConfigError(f"{', '.join(present)}: registered", hint=f"gpuadmin remove-user {' '.join(present)}")
    known = {*recall(site.directory).uids.values(), *owners(site.registry.registry).values()}
    strangers = [name for name in names if name not in known]
    if strangers and not verb.named("storage"):
        raise ConfigError(f"{', '.join(strangers)}: never had a uid here", hint="gpuadmin check")
    refuse_carried(verb, names)
    registry = site.registry.changed(site.settings, forget=names)
    title = f"Forget whose uids were {', '.join(names)}'s"
    return converge(verb, registry, [], title=title, extra={"gpuadmin_forget": names}, homes=False, forget=names)

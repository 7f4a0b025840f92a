"""gpuadmin restore-home"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuadmin.cli._options import Options, run_options

if TYPE_CHECKING:
    from gpuadmin.config.schema import Settings, User
    from gpuadmin.run import RunResult


@click.command("restore-home")
@click.argument("user", metavar="USER")
@click.option("--from", "backup", metavar="BACKUP", help="Which backup. [default: the newest that was verified]")
@click.option("--path", metavar="SUB", default="", help="Only this part of the home.")
@click.option("--to", "target", metavar="DIR", help="A directory on the storage host that is not there yet.")
@click.option("--in-place", is_flag=True, help="To where it was; what is there now is kept beside it.")
@run_options()
@click.pass_context
def command(
    ctx: click.Context,
    user: str,
    backup: str | None,
    path: str,
    target: str | None,
    in_place: bool,
    options: Options,
) -> None:
    """Bring a home, or a part of it, back from a backup: beside the home, never over it.

    Owners and modes are kept, and the copy is compared with the backup. For somebody who has no account
    it becomes an archive file on the storage host that root alone can read.
    """
    from gpuadmin.cli._verb import Work, opened, perform, storage_of
    from gpuadmin.plan import PlanBuilder

    if target and in_place:
        raise click.UsageError("--to and --in-place exclude each other")
    with opened("restore-home", options) as verb:
        settings = verb.site.settings
        person = verb.site.registry.find(user)
        wanted = request(settings, user, person, backup=backup, path=path, target=target, in_place=in_place)
        builder = PlanBuilder(f"Restore {user}'s {path or 'home'} from {backup or 'the newest verified backup'}")
        where = {
            "beside": f"beside {settings.homes.export}/{user}",
            "in-place": f"to {settings.homes.export}/{user}; what is there is kept beside it",
            "directory": f"to {wanted['target']}",
            "archive": f"to an archive in {wanted['target']}, because nobody of that name has an account",
        }[wanted["mode"]]
        builder.add_all(storage_of(verb), [f"restore {where}; compare it with the backup"])
        work = Work(
            plan=builder.build(),
            variables={"gpuadmin_backup": {"restore": wanted}},
            result=_result,
            observe=True,
        )
        ctx.exit(perform(verb, work))


def request(
    settings: Settings,
    user: str,
    person: User | None,
    *,
    backup: str | None,
    path: str,
    target: str | None,
    in_place: bool,
) -> dict[str, Any]:
    """Given what the command line said and who it is about, return what the storage host is asked for."""
    from pathlib import PurePosixPath

    mode = "directory" if target else "in-place" if in_place else "beside"
    if person is None and not target:
        mode, target = "archive", str(PurePosixPath(settings.homes.export).parent / "archive")
    return {
        "user": user,
        "backup": backup or "",
        "mode": mode,
        "path": path,
        "target": target,
        "uid": None if person is None else person.uid,
        "subids": [settings.subids.base, settings.subids.size, settings.accounts.uid_first],
    }


def _result(run: RunResult) -> dict[str, Any]:
    return next(
        ({"restored": host.reports["restored"]} for host in run.hosts.values() if "restored" in host.reports), {}
    )

"""gpuadmin renumber"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("renumber")
@click.argument("users", metavar="[USER...]", nargs=-1, shell_complete=people())
@click.option("--rename", "renames", metavar="OLD=NEW", multiple=True,
              help="Whose account has another name on hosts than in users.yml; repeatable.")  # fmt: skip
@click.option("--force", is_flag=True, help="Reboot hosts that people use: they are told, and have a minute.")
@run_options()
def command(users: tuple[str, ...], renames: tuple[str, ...], force: bool, options: Options) -> int:
    """Give people the uid that users.yml says, on every host, with all files that carry the old one.

    Without names: everybody whose uid differs somewhere. It looks on all local file systems, shows files and bytes for
    each host, and asks. Then those people cannot log in, and the hosts reboot: ids change at boot, before anybody can
    be there. After a kill or a power cut the same command goes on. --limit goes with --check alone.

    With --rename, accounts whose names users.yml cannot have (dots, capitals) get another name at the same boot: with
    their group, home, memberships, subordinate ids, crontab and mail.

    \b
    gpuadmin renumber --check
    gpuadmin renumber minji jiho
    gpuadmin renumber --rename j.doe=jdoe --rename MinJi=minji
    """
    from gpuadmin.takeover.actions.renumber import renumber

    return renumber(options, users, renames, force=force)

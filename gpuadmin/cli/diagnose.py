"""gpuadmin diagnose"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import paths, pattern, people
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("diagnose")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=people())
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    shell_complete=pattern(),
    help="Only there, as --limit; without NAME the hosts themselves are looked at; repeatable.",
)
@click.option(
    "--bundle",
    metavar="FILE",
    shell_complete=paths("file"),
    help="Write the evidence to an archive for whoever helps, without keys, mails, names and command lines.",
)
@click.option(
    "--restart-docker",
    "restart",
    is_flag=True,
    help="Then restart NAME's Docker daemon where it is set up, through their own user manager; containers end.",
)
@click.option("--no-trial", is_flag=True, help="Do not begin a session of NAME's to see what works in it.")
@run_options()
def command(
    name: str | None, hosts: tuple[str, ...], bundle: str | None, restart: bool, no_trial: bool, options: Options
) -> int:
    """Say why something does not work for somebody, or on a host: the cause, what to do, and where it was seen.

    It changes nothing. Where NAME may log in, it begins a session of theirs for some seconds and ends it: the shell, a
    file, a process, Docker's socket. It ends with what was not looked at; what is not known is called unknown.
    Exit code 0: what was checked is fine; 6: something stops or hinders; 4: a host did not answer.

    \b
    gpuadmin diagnose minji
    gpuadmin diagnose minji --host node3
    gpuadmin diagnose --host node3
    gpuadmin diagnose minji --host node3 --restart-docker
    """
    from gpuadmin.actions.diagnose import diagnose

    if name is None and not hosts and options.limit is None:
        raise click.UsageError("name somebody, or a host: gpuadmin diagnose NAME, gpuadmin diagnose --host HOST")
    if hosts and options.limit is not None:
        raise click.UsageError("--host and --limit say the same; give one of them")
    if restart and (name is None or bundle is not None):
        raise click.UsageError("--restart-docker needs NAME, and no --bundle")
    return diagnose(options, name, hosts, bundle, restart, trial=not no_trial)

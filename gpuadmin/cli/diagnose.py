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
@run_options(changes=False)
def command(name: str | None, hosts: tuple[str, ...], bundle: str | None, options: Options) -> int:
    """Say why something does not work for somebody, or on a host: the cause, what to do, and where it was seen.

    It changes nothing and starts nothing. What is not known is called unknown.

    \b
    gpuadmin diagnose minji
    gpuadmin diagnose minji --host node3
    gpuadmin diagnose --host node3
    """
    from gpuadmin.actions.diagnose import diagnose

    if name is None and not hosts and options.limit is None:
        raise click.UsageError("name somebody, or a host: gpuadmin diagnose NAME, gpuadmin diagnose --host HOST")
    if hosts and options.limit is not None:
        raise click.UsageError("--host and --limit say the same; give one of them")
    return diagnose(options, name, hosts, bundle)

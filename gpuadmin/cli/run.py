"""gpuadmin run"""

from __future__ import annotations

import click

from gpuadmin.cli._options import HostCommand, run_options
from gpuadmin.options import Options


@click.command("run", cls=HostCommand)
@click.argument("hosts")
@click.argument("words", metavar="-- CMD...", nargs=-1, type=click.UNPROCESSED)
@run_options(changes=False, check="Only look which hosts can be reached; run nothing.")
def command(options: Options, hosts: str, words: tuple[str, ...]) -> int:
    """Run a command as root on hosts, all at once, and show what each answers.

    HOSTS are names, groups, or an Ansible pattern: gpu1,gpu2 or 'gpu:!gpu3'. One word is a line for the shell
    ('df -h | tail -1'); several are a program and its arguments, as they are. What it does is not planned and not asked
    about: it is your own command. It is recorded, with its output. The exit code is 3 where it failed on a host.
    Options for gpuadmin come before HOSTS, or before `--`.
    """
    from gpuadmin.actions.run import run

    words = words[1:] if words[:1] == ("--",) else words
    if not words:
        raise click.UsageError("which command? gpuadmin run HOSTS -- CMD")
    return run(options, hosts, words)

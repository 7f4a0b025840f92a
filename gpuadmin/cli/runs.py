"""gpuadmin runs"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import run_ids
from gpuadmin.cli._options import json_option, site_option


@click.command("runs")
@click.argument("run", required=False, shell_complete=run_ids())
@click.option("--log", is_flag=True, help="Show the whole output of Ansible.")
@click.option("--dismiss", is_flag=True, help="Drop what RUN left undone: status no longer lists it.")
@site_option
@json_option
def command(run: str | None, log: bool, dismiss: bool, site: str | None, as_json: bool) -> int:
    """List past runs, newest first, or show one: who, when, what was planned and what came of it.

    RUN is an id, the beginning of one, or its last four characters.
    """
    from gpuadmin.actions import runs

    if run is None and (log or dismiss):
        raise click.UsageError(f"{'--log' if log else '--dismiss'} needs the id of a run")
    if log and dismiss:
        raise click.UsageError("--log shows a run, --dismiss drops what it left undone: give one of them")
    if dismiss and run is not None:
        return runs.dismiss(site, run, as_json=as_json)
    return runs.runs(site, run, log=log, as_json=as_json)

"""gpuadmin runs"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import run_ids
from gpuadmin.cli._options import json_option, site_option


@click.command("runs")
@click.argument("run", required=False, shell_complete=run_ids())
@click.option("--log", is_flag=True, help="Show the whole output of Ansible.")
@site_option
@json_option
def command(run: str | None, log: bool, site: str | None, as_json: bool) -> int:
    """List past runs, newest first, or show one: who, when, what was planned and what came of it.

    RUN is an id, the beginning of one, or its last four characters.
    """
    from gpuadmin.actions.runs import runs

    if log and run is None:
        raise click.UsageError("--log needs the id of a run")
    return runs(site, run, log=log, as_json=as_json)

"""gpuadmin check"""

from __future__ import annotations

import click

from gpuadmin.cli._options import json_option, site_option


@click.command("check")
@site_option
@json_option
def command(site: str | None, as_json: bool) -> int:
    """Check a site for mistakes: schema, inventory, duplicate names, ids and keys, dates. Asks no host."""
    from gpuadmin.actions.check import check

    return check(site, as_json=as_json)

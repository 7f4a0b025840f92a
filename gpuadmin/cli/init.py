"""gpuadmin init"""

from __future__ import annotations

from pathlib import Path

import click

from gpuadmin.cli._options import json_option


@click.command("init")
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--name", help="The cluster's name. [default: the directory's]")
@click.option("--admin", "admin", metavar="USER", help="The account that gpuadmin logs in as. [default: gpuadmin]")
@click.option("--storage", metavar="HOST", help="The host that serves the homes.")
@click.option("--node", "nodes", metavar="HOST", multiple=True, help="A GPU node; repeatable, the first is golden.")
@json_option
def command(
    directory: Path, name: str | None, admin: str | None, storage: str | None, nodes: tuple[str, ...], as_json: bool
) -> int:
    """Write a new site: gpuadmin.yml, users.yml, inventory/, with comments that explain them.

    \b
    gpuadmin init mycluster --storage nas1 --node gpu1 --node gpu2
    """
    from gpuadmin.actions.init import init

    return init(directory, name=name, admin=admin, storage=storage, nodes=nodes, as_json=as_json)

"""gpuadmin init"""

from __future__ import annotations

from pathlib import Path

import click

from gpuadmin.console import say


@click.command("init")
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--name", help="The cluster's name. [default: the directory's]")
@click.option("--admin", "admin", metavar="USER", help="The account that gpuadmin logs in as. [default: gpuadmin]")
@click.option("--storage", metavar="HOST", help="The host that serves the homes.")
@click.option("--node", "nodes", metavar="HOST", multiple=True, help="A GPU node; repeatable, the first is golden.")
def command(directory: Path, name: str | None, admin: str | None, storage: str | None, nodes: tuple[str, ...]) -> None:
    """Write a new site: gpuadmin.yml, users.yml, inventory/, with comments that explain them.

    \b
    gpuadmin init mycluster --storage nas1 --node gpu1 --node gpu2
    """
    from pydantic import ValidationError

    from gpuadmin.config.fields import host_name
    from gpuadmin.config.skeleton import SiteHost, write_site
    from gpuadmin.errors import ConfigError

    if (directory / "gpuadmin.yml").exists():
        raise ConfigError(
            f"{directory}: holds a site already", hint="nothing was changed; edit it, then: gpuadmin check"
        )
    try:
        for host in (*nodes, *([storage] if storage else [])):
            host_name(host)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    hosts = [SiteHost(storage, ("storage",))] if storage else []
    hosts += [SiteHost(node, ("gpu", "golden") if index == 0 else ("gpu",)) for index, node in enumerate(nodes)]
    settings = {"admin": {"user": admin}} if admin else {}
    try:
        write_site(directory, name=name or directory.absolute().name, settings=settings, hosts=hosts)
    except ValidationError as error:
        raise ConfigError(str(error.errors()[0]["msg"]).removeprefix("Value error, ")) from None
    say(f"Wrote {directory}: gpuadmin.yml, users.yml, inventory/hosts.yml")
    todo = [] if storage and nodes else ["name your hosts in inventory/hosts.yml"]
    todo += ["gpuadmin check", "gpuadmin trust --all", "gpuadmin provision --check", "gpuadmin provision"]
    say(f"Next, in {directory}:\n  " + "\n  ".join(todo))

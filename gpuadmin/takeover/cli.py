"""The verbs of the take-over: options in, one call."""

from __future__ import annotations

from pathlib import Path

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("adopt")
@click.argument("hosts", metavar="[HOST]...", nargs=-1)
@click.option(
    "--admin", "login", metavar="USER", help="Whom you can log in as now. [default: root, or the site's admin]"
)
@click.option(
    "--identity",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The private key of that login. [default: the site's, or ssh's own]",
)
@click.option("--name", help="The cluster's name, in a new site. [default: the directory's]")
@run_options(limit=False)
def adopt(options: Options, hosts: tuple[str, ...], login: str | None, identity: Path | None, name: str | None) -> int:
    """Look at machines that people work on, and write a site for them.

    Changes nothing on them, and needs nothing there but Python 3.9 and ssh. HOST is a name, or NAME=ADDRESS, each with
    :PORT or not. The site (--site DIR, a new directory) has groups, people, uids, keys and settings as they are;
    adoption.md says what was found, and what does not fit yet, with what to do about it. Run again, with or without
    HOST, it adds what is new, and leaves alone what is there. No password hash and no private key is read.

    \b
    gpuadmin adopt gpu1 gpu2 nas1 --admin minji --ask-become-pass --site mycluster
    """
    from gpuadmin.takeover.actions.adopt import adopt

    return adopt(options, hosts, login=login, identity=identity, name=name)


@click.command("renumber")
@click.argument("users", metavar="[USER...]", nargs=-1, shell_complete=people())
@click.option("--rename", "renames", metavar="OLD=NEW", multiple=True,
              help="Whose account has another name on hosts than in users.yml; repeatable.")  # fmt: skip
@click.option("--force", is_flag=True, help="Reboot hosts that people use: they are told, and have a minute.")
@run_options()
def renumber(users: tuple[str, ...], renames: tuple[str, ...], force: bool, options: Options) -> int:
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


@click.command("move-homes")
@click.argument("users", metavar="[USER...]", nargs=-1, shell_complete=people())
@click.option("--main", "mains", metavar="USER=HOST", multiple=True, help="Whose home on which node becomes the home.")
@click.option("--discard", is_flag=True, help="Delete the old homes that earlier moves left on nodes.")
@run_options()
def move_homes(users: tuple[str, ...], mains: tuple[str, ...], discard: bool, options: Options) -> int:
    """Move people's homes from the disks of nodes to the storage host.

    Without names: everybody who has a home on a node. Homes are copied while people work. Then their accounts close for
    as long as it takes to fetch what has changed and to compare everything, and the homes get their names. Of several
    homes of a person the largest becomes the home (or that of --main); the others are in it as before-HOST/. The old
    ones stay, renamed, until --discard. After a kill or a power cut the same command goes on.

    \b
    gpuadmin move-homes --check
    gpuadmin move-homes minji --main minji=gpu2
    gpuadmin move-homes --discard
    """
    from gpuadmin.takeover.actions.move_homes import discard_homes, move_homes

    if discard:
        if mains:
            raise click.UsageError("--main and --discard do not go together")
        return discard_homes(options, users)
    return move_homes(options, users, mains)


@click.command("move-docker")
@click.argument("user", metavar="[USER]", required=False, shell_complete=people())
@click.option("--container", "containers", metavar="NAME", multiple=True, help="Its image and its named volumes.")
@click.option("--volume", "volumes", metavar="NAME", multiple=True, help="A named volume.")
@click.option("--image", "images", metavar="NAME|ID", multiple=True, help="An image.")
@click.option("--discard", is_flag=True, help="Remove from root's Docker what was carried to USER before.")
@run_options()
def move_docker(
    user: str | None,
    containers: tuple[str, ...],
    volumes: tuple[str, ...],
    images: tuple[str, ...],
    discard: bool,
    options: Options,
) -> int:
    """Carry images and volumes of root's Docker into a person's own, on the same node.

    Without options: lists what root's Docker has on each node, what of it can be carried, and whose it may be. Root's
    Docker does not know that: name it. Nothing of root's Docker changes until --discard, which removes what was carried
    and is still as it was; without names, all that was carried to USER. After a kill or a power cut the same command
    goes on.

    \b
    gpuadmin move-docker
    gpuadmin move-docker minji --container train --volume datasets --limit gpu1
    gpuadmin move-docker minji --discard
    """
    from gpuadmin.takeover.actions.move_docker import discard_docker, list_docker, move_docker

    named = (containers, volumes, images)
    if user is None:
        if discard or any(named):
            raise click.UsageError("say whose it is: gpuadmin move-docker USER …")
        return list_docker(options)
    if discard:
        return discard_docker(options, user, named)
    return move_docker(options, user, named) if any(named) else list_docker(options, user)

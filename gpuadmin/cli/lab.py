"""`gpuadmin lab`: a virtual cluster on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click
from click.core import ParameterSource

from gpuadmin.cli._options import HostCommand, WholeNumber, json_option


def _lab_here(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str:
    if given is not None:
        return given
    from gpuadmin.actions import lab as action

    return action.here()


NAME = click.option(
    "--name",
    callback=_lab_here,
    help="Which lab; several can exist side by side.  [default: the one whose site you are in, else `default`]",
)


@click.group("lab")
def lab() -> None:
    """A virtual cluster on this machine, to try and to rehearse on.

    Real machines in miniature: their own disks and boot loader, systemd, ssh, NFS, Docker. Virtual machines touch
    nothing of this machine outside of your cache and state directories; light hosts run on its kernel, as root.
    """


@lab.command()
@click.option("--nodes", type=WholeNumber(0, 40), default=2, show_default=True, help="GPU nodes; node1 is golden.")
@click.option("--ordinary", type=WholeNumber(0, 40), default=0, show_default=True,
              help="Further nodes with an ordinary writable root.")  # fmt: skip
@click.option("--memory", type=WholeNumber(512, 65536), default=1024, show_default=True, help="MiB for each host.")
@click.option("--firmware", type=click.Choice(["bios", "uefi"]), default=None,
              help="What hosts boot by; uefi needs OVMF.  [default: bios, or what the lab has]")  # fmt: skip
@click.option(
    "--light",
    is_flag=True,
    default=None,
    help="Hosts as namespaces of this machine: seconds to start, needs root, no boot loader, no NFS.",
)
@click.option("--gpus", type=WholeNumber(0, 40), default=None,
              help="GPUs of each light node, which can be opened and held and compute nothing.  "
                   "[default: 0, or what the lab has]")  # fmt: skip
@click.option("--release", multiple=True, metavar="[HOST=]N",
              help="Which Debian (11 to 14) or Ubuntu (22.04, 24.04, 26.04) hosts have, for all or for one; more than "
                   "once for a mixed lab.  "
                   "[default: 13, or what the lab has]")  # fmt: skip
@click.option("--like", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="SITE",
              help="Make the twin of a site: light hosts by its names and groups, with its people, without keys, "
                   "addresses and mails.")  # fmt: skip
@click.option("--state", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="With --like: the adoption.json that `gpuadmin adopt` wrote. A new twin gets what it saw, "
                   "mistakes included: accounts, uids, groups, homes, sudo, Docker.")  # fmt: skip
@click.option("--site", type=click.Path(file_okay=False, path_type=Path), default=None,
              help="Where to write the lab's site.  "
                   "[default: ./lab-site, ./twin-site with --like, or where it was written before]")  # fmt: skip
@json_option
@NAME
@click.pass_context
def up(
    ctx: click.Context,
    nodes: int,
    ordinary: int,
    memory: int,
    firmware: Literal["bios", "uefi"] | None,
    light: bool | None,
    gpus: int | None,
    release: tuple[str, ...],
    like: Path | None,
    state: Path | None,
    site: Path | None,
    name: str,
    as_json: bool,
) -> int:
    """Bring the lab up, and write a site for it.

    What runs is kept, what is down is started, what is missing is added. The first time, the base image is made.
    """
    from gpuadmin.actions import lab as action

    given = [one for one in ("nodes", "ordinary", "memory", "firmware", "gpus")
             if ctx.get_parameter_source(one) is ParameterSource.COMMANDLINE]  # fmt: skip
    if like is not None and given:
        raise click.UsageError(f"--like takes its hosts from the site; leave --{given[0]} out")
    if state is not None and like is None:
        raise click.UsageError("--state says what a site's hosts were like; --like names the site")
    return action.up(name, nodes=nodes, ordinary=ordinary, memory=memory, firmware=firmware, light=light, gpus=gpus,
                  site=site, as_json=as_json, like=like, release=release, seen=state)  # fmt: skip


@lab.command()
@json_option
@NAME
def status(as_json: bool, name: str) -> int:
    """Show the lab's hosts, whether they run, and its snapshots."""
    from gpuadmin.actions import lab as action

    return action.status(name, as_json=as_json)


@lab.command(cls=HostCommand)
@click.argument("host")
@click.argument("remote", nargs=-1, type=click.UNPROCESSED, metavar="[CMD]...")
@click.option("--login", "-l", metavar="NAME", help="Log in as somebody else than the admin.")
@click.option("--identity", "-i", type=click.Path(path_type=Path), help="The private key to log in with.")
@NAME
def ssh(host: str, remote: tuple[str, ...], login: str | None, identity: Path | None, name: str) -> int:
    """Log in to a host as the admin, or run a command there.

    `sudo` needs no password there.

    Options for gpuadmin come before HOST, or before `--`.
    """
    from gpuadmin.actions import lab as action

    # `gpuadmin ssh` and `gpuadmin run` take it before a command; ssh would pass it to the shell there
    return action.ssh(name, host, remote[1:] if remote[:1] == ("--",) else remote, login=login, identity=identity)


@lab.command("power-cut")
@click.argument("host")
@json_option
@NAME
def power_cut(host: str, name: str, as_json: bool) -> int:
    """Cut a host's power, now. What it had not flushed to its disk is lost."""
    from gpuadmin.actions import lab as action

    return action.power_cut(name, host, as_json=as_json)


@lab.command()
@click.argument("host")
@json_option
@NAME
def start(host: str, name: str, as_json: bool) -> int:
    """Start a host that is off, and wait until it answers ssh."""
    from gpuadmin.actions import lab as action

    return action.start(name, host, as_json=as_json)


@lab.command()
@click.argument("snapshot")
@click.option("--replace", is_flag=True, help="Also where a moment of that name is saved.")
@json_option
@NAME
def save(snapshot: str, name: str, replace: bool, as_json: bool) -> int:
    """Save all hosts as they run now: memory, disks, everything."""
    from gpuadmin.actions import lab as action

    return action.save(name, snapshot, replace=replace, as_json=as_json)


@lab.command()
@click.argument("snapshot")
@json_option
@NAME
def restore(snapshot: str, name: str, as_json: bool) -> int:
    """Bring all hosts back to a saved moment.

    Whether they run or not; it takes seconds.
    """
    from gpuadmin.actions import lab as action

    return action.restore(name, snapshot, as_json=as_json)


@lab.command()
@click.option("--purge", is_flag=True, help="Delete its disks, keys and snapshots as well.")
@json_option
@NAME
def down(purge: bool, name: str, as_json: bool) -> int:
    """Shut the lab down. Its disks stay, unless you purge them."""
    from gpuadmin.actions import lab as action

    return action.down(name, purge=purge, as_json=as_json)


@lab.command()
@click.argument("host")
@click.option("-f", "--follow", is_flag=True, help="Go on showing what is written.")
@NAME
def logs(host: str, follow: bool, name: str) -> int:
    """Show a host's serial console."""
    from gpuadmin.actions import lab as action

    return action.logs(name, host, follow=follow)

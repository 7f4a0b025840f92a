"""`gpuadmin lab`: a virtual cluster on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from gpuadmin.console import say
from gpuadmin.words import counted

NAME = click.option("--name", default="default", show_default=True, help="Which lab; several can exist side by side.")


@click.group()
def command() -> None:
    """A virtual cluster on this machine, to try and to rehearse on.

    Real machines in miniature: their own disks and boot loader, systemd, ssh, NFS, Docker. Nothing of it touches
    this machine outside of your cache and state directories.
    """


@command.command()
@click.option("--nodes", type=click.IntRange(0, 40), default=2, show_default=True, help="GPU nodes; node1 is golden.")
@click.option("--ordinary", type=click.IntRange(0, 40), default=0, show_default=True,
              help="Further nodes with an ordinary writable root.")  # fmt: skip
@click.option("--memory", type=click.IntRange(512, 65536), default=1024, show_default=True, help="MiB for each host.")
@click.option("--firmware", type=click.Choice(["bios", "uefi"]), default=None,
              help="What hosts boot by; uefi needs OVMF.  [default: bios, or what the lab has]")  # fmt: skip
@click.option(
    "--light",
    is_flag=True,
    default=None,
    help="Hosts as namespaces of this machine: seconds to start, needs root, no boot loader, no NFS.",
)
@click.option("--site", type=click.Path(file_okay=False, path_type=Path), default=None,
              help="Where to write the lab's site.  [default: ./lab-site, or where it was written before]")  # fmt: skip
@NAME
def up(
    nodes: int,
    ordinary: int,
    memory: int,
    firmware: Literal["bios", "uefi"] | None,
    light: bool | None,
    site: Path | None,
    name: str,
) -> None:
    """Bring the lab up, and write a site for it.

    What runs is kept, what is down is started, what is missing is added. The first time, the base image is made.
    """
    from gpuadmin.lab import cluster, state

    known = state.load(name)
    directory = site or (Path(known.site) if known and known.site else Path("lab-site"))
    lab = cluster.up(
        name,
        nodes=nodes,
        ordinary=ordinary,
        memory_mib=memory,
        firmware=firmware,
        light=light,
        site_directory=directory.absolute(),
        progress=_progress(),
    )
    count = counted(len(lab.hosts), "host is", "hosts are")
    say(f"{count} up. Their site is {directory}: try  gpuadmin check --site {directory}")


@command.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@NAME
def status(as_json: bool, name: str) -> None:
    """Show the lab's hosts, whether they run, and its snapshots."""
    from gpuadmin.lab import report

    facts = report.facts(name)
    say(report.as_json(facts) if as_json else report.as_text(facts))


@command.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("host")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[CMD]...")
@click.option("--login", "-l", metavar="NAME", help="Log in as somebody else than the admin.")
@click.option("--identity", "-i", type=click.Path(path_type=Path), help="The private key to log in with.")
@NAME
def ssh(host: str, words: tuple[str, ...], login: str | None, identity: Path | None, name: str) -> None:
    """Log in to a host as the admin, or run a command there (`sudo` needs no password).

    Options for gpuadmin stand before HOST.
    """
    import os

    from gpuadmin.lab import commands, seed, state
    from gpuadmin.lab import ssh as lab_ssh

    commands.require("ssh")
    lab = state.existing(name)
    line = lab_ssh.ssh_command(lab, lab.host(host), words, login=login or seed.ADMIN, identity=identity)
    os.execvp(line[0], line)


@command.command("power-cut")
@click.argument("host")
@NAME
def power_cut(host: str, name: str) -> None:
    """Cut a host's power, now. What it had not flushed to its disk is lost."""
    from gpuadmin.lab import cluster

    say(f"{host}: power cut" if cluster.power_cut(name, host) else f"{host} was off already")


@command.command()
@click.argument("host")
@NAME
def start(host: str, name: str) -> None:
    """Start a host that is off, and wait until it answers ssh."""
    from gpuadmin.lab import cluster

    cluster.start(name, host, _progress())
    say(f"{host} is up")


@command.command()
@click.argument("snapshot")
@NAME
def save(snapshot: str, name: str) -> None:
    """Save all hosts as they run now: memory, disks, everything."""
    from gpuadmin.lab import snapshots

    snapshots.save(name, snapshot, _progress())
    say(f"saved {snapshot}")


@command.command()
@click.argument("snapshot")
@NAME
def restore(snapshot: str, name: str) -> None:
    """Bring all hosts back to a saved moment, whether they run or not. Takes seconds."""
    from gpuadmin.lab import snapshots

    snapshots.restore(name, snapshot, _progress())
    say(f"restored {snapshot}")


@command.command()
@click.option("--purge", is_flag=True, help="Delete its disks, keys and snapshots as well.")
@NAME
def down(purge: bool, name: str) -> None:
    """Shut the lab down. Its disks stay, unless you purge them."""
    from gpuadmin.lab import cluster

    cluster.down(name, purge=purge, progress=_progress())
    say(f"lab {name} is {'gone' if purge else 'down'}")


@command.command()
@click.argument("host")
@click.option("-f", "--follow", is_flag=True, help="Go on showing what is written.")
@NAME
def logs(host: str, follow: bool, name: str) -> None:
    """Show a host's serial console."""
    from gpuadmin.lab import report

    for text in report.console(name, host, follow=follow):
        say(text, end=False)


def _progress() -> Any:
    from gpuadmin.lab.progress import Progress

    return Progress()

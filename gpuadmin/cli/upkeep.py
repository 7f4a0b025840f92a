"""The verbs that set hosts up, keep them up, and switch them on and off."""

from __future__ import annotations

from pathlib import Path

import click

from gpuadmin.cli._complete import hosts, pattern
from gpuadmin.cli._options import WholeNumber, mail_options, parse_words, power_options, run_options
from gpuadmin.options import MailOptions, Options


@click.command("install")
@click.argument("host", metavar="[HOST]", required=False, shell_complete=hosts())
@click.option("--stick", metavar="FILE", type=click.Path(path_type=Path), help="Make the site's stick: this file.")
@click.option("--image", metavar="NAME", help="With --stick: the image.  [default: the newest with a full stream]")
@click.option("--kernel", metavar="TEXT", default="", help="With --stick: further arguments of all its kernels.")
@click.option("--serve", multiple=True, metavar="MAC", help="Boot this machine from the network; repeatable.")
@click.option("--hours", type=WholeNumber(1, 24), help="With --serve: for how long.  [default: 2]")
@click.option(
    "--answers", metavar="DIR", type=click.Path(path_type=Path), help="Write answer files for installers there."
)
@click.option("--mac", metavar="MAC", help="A MAC address of the machine: another machine refuses.")
@click.option(
    "--disk", metavar="BY-ID", default="", help="Its name in /dev/disk/by-id; without it, with --check, all are shown."
)
@click.option("--address", metavar="ADDRESS", help="Where the machine answers now.  [default: the host's own address]")
@click.option("--network", multiple=True, metavar="FILE", help="A .network file, in place of DHCP; repeatable.")
@click.option("--erase", metavar="HOST", help="With --yes, for a disk that is not empty: the name to be typed.")
@run_options(limit=False)
def install(
    options: Options, host: str | None, stick: Path | None, image: str | None, kernel: str, serve: tuple[str, ...],
    hours: int | None, answers: Path | None, mac: str | None, disk: str, address: str | None, network: tuple[str, ...],
    erase: str | None,
) -> int:  # fmt: skip
    """Make an empty machine a node: boot it from the site's stick; gpuadmin then writes the one disk that you name.

    The stick writes nothing by itself. HOST is in the inventory. What is on the disk is shown, and you type the host's
    name before it is erased. If it is interrupted, run it again: it starts over.

    \b
    gpuadmin install --stick site.img
    gpuadmin install --serve 3c:ec:ef:12:34:56      # in place of a stick, where the network has DHCP
    gpuadmin install --answers answers              # for an ordinary root, by the distribution's installer
    gpuadmin install gpu3 --mac 3c:ec:ef:12:34:56 --address 10.1.0.201 --disk nvme-SAMSUNG_MZ1_S5XX
    """
    from gpuadmin.actions import install as action

    made = [stick is not None, bool(serve), answers is not None]
    if [host is not None, *made].count(True) != 1 or bool(host) != bool(mac):
        what = "name a HOST and its --mac (printed on the machine), or give one of --stick, --serve and --answers"
        raise click.UsageError(what)
    if any(made) and (disk or address or network or erase):
        raise click.UsageError("--disk, --address, --network and --erase go with HOST")
    if stick is None and (image or kernel):
        raise click.UsageError("--image and --kernel go with --stick: the image is the one that the stick has")
    if hours is not None and not serve:
        raise click.UsageError("--hours goes with --serve")
    if stick is not None:
        return action.make_stick(options, stick, image, kernel)
    if answers is not None:
        return action.write_answers(options, answers)
    macs = [one.lower().replace("-", ":") for one in (*serve, mac or "")]
    if serve:
        return action.serve_stick(options, macs[:-1], hours or 2)
    return action.install(options, str(host), macs[-1], disk, address, network, erase)


@click.command("bootstrap")
@click.argument("names", metavar="HOST...", nargs=-1, required=True)
@click.option("--as", "login", metavar="USER", default="root", show_default=True, help="Whom you can log in as now.")
@click.option(
    "--identity",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The private key of that login. [default: the site's]",
)
@click.option(
    "--uid",
    type=WholeNumber(100, 65533),
    default=900,
    show_default=True,
    help="The uid of a new admin account; the same on all hosts.",
)
@click.option("--home", metavar="DIR", help="The home of a new admin account. [default: /var/home/NAME]")
@run_options()
def bootstrap(
    options: Options, names: tuple[str, ...], login: str, identity: Path | None, uid: int, home: str | None
) -> int:
    """Prepare machines that you can log in to for gpuadmin.

    Shows and pins the host key, installs Python and sudo where they are missing, makes the admin account (admin.user)
    with sudo and the public key of admin.ssh_key, and proves it by logging in. Nobody loses a login, and password
    logins stay as they are. --ask-pass asks for the password of USER, --ask-become-pass for its sudo password.
    """
    from gpuadmin.actions.bootstrap import Entrance, bootstrap

    return bootstrap(options, names, Entrance(login, identity), uid=uid, home=home)


@click.command("provision")
@run_options()
def provision(options: Options) -> int:
    """Set nodes and the storage host up: all roles that a host's groups call for, and the accounts."""
    from gpuadmin.actions.provision import provision

    return provision(options)


@click.command("upgrade")
@click.argument("hosts", metavar="HOST...", nargs=-1, required=True, shell_complete=pattern())
@click.option("--security", is_flag=True, help="Only security updates, and what they need.")
@run_options()
def upgrade(hosts: tuple[str, ...], security: bool, options: Options) -> int:
    """Upgrade hosts without images, one after the other, and reboot those that need it and that nobody uses.

    Only what was shown is upgraded. It stops after the first host where something that was well is not. Settings that
    you have changed stay, nothing is removed, the GPU's driver is held, and storage comes last. Nodes with images are
    left out: build-image and push-image are for them.

    \b
    gpuadmin upgrade all --security --check
    """
    from gpuadmin.actions.upgrade import upgrade

    return upgrade(options, hosts, security=security)


@click.command("maintain")
@click.argument("hosts", required=False)
@click.argument("words", metavar="[-- VERB...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--from", "begin", metavar="TIME", help="When it begins: '2026-11-28 18:00'.")
@click.option("--until", metavar="TIME", help="When it is over.")
@click.option("--reason", metavar="TEXT", help="What for: everybody reads it.")
@click.option("--move", metavar="ID", help="Move one to --from and --until; everybody is told.")
@click.option("--cancel", metavar="ID", help="Call one off: jobs start again, and logins no longer show it.")
@click.option("--begin", "now", metavar="ID", help="Run the VERB of one whose time has come, and end it.")
@click.option("--due", is_flag=True, help="The same for whichever is due, if nobody has begun it.")
@mail_options
@run_options()
def maintain(
    options: Options, mail: MailOptions, hosts: str | None, words: tuple[str, ...], begin: str | None,
    until: str | None, reason: str | None, move: str | None, cancel: str | None, now: str | None, due: bool,
) -> int:  # fmt: skip
    """Announce maintenance of nodes, and keep its time free: no job and no grant begins that would run into it.

    HOSTS are nodes, or an Ansible pattern. People are told as by announce: by mail, at login and on the dashboard.
    Without HOSTS it shows everything that is announced. VERB is a verb of gpuadmin with its options.

    \b
    gpuadmin maintain --from '2026-11-28 18:00' --until '2026-11-28 20:00' --reason driver gpu1 -- reboot gpu1
    """
    from gpuadmin.actions import maintain as action

    if sum(one is not None for one in (hosts, move, cancel, now, due or None)) > 1:
        raise click.UsageError("HOSTS, --move, --cancel, --begin, --due: one of them")
    if hosts or move:
        if begin is None or until is None or (reason is None) != (hosts is None):
            raise click.UsageError("HOSTS need --from, --until and --reason; --move ID needs --from and --until")
        if reason is not None and not reason.strip():
            raise click.UsageError("--reason is empty: people read why")
        # a mistake in the verb's words is reported now, and not at the window's time
        if words and not parse_words(click.get_current_context(), words[0], ("--yes", *words[1:])):
            raise click.UsageError(f"{words[0]} is not a verb of gpuadmin")
        return action.maintain(options, mail, (begin, until), hosts or "", reason or "", words, move)
    if begin or until or reason or mail != MailOptions():
        raise click.UsageError("which nodes? gpuadmin maintain [OPTIONS] HOSTS [-- VERB...]")
    if cancel is not None:
        return action.take_back(options, cancel)
    if now is not None:
        return action.begin_window(options, now)
    return action.begin_due(options) if due else action.list_announcements(options)


@click.command("reboot")
@power_options
@run_options()
def reboot(hosts: tuple[str, ...], when_idle: bool, at: str | None, force: bool, options: Options) -> int:
    """Reboot hosts, and wait until they are back. People are told first.

    A node with people on it is left out, unless you say how long they get. With a storage host among them: the nodes
    unmount the homes, the storage host reboots when nobody mounts it, and then the nodes do.

    \b
    gpuadmin reboot gpu3 --when-idle
    gpuadmin reboot all --at 02:00
    """
    from gpuadmin.actions.reboot import reboot

    return reboot(options, hosts, when_idle=when_idle, at=at, force=force)


@click.command("shutdown")
@power_options
@click.option("--idle", type=click.IntRange(min=1), metavar="N",
              help="Only N nodes that nobody uses; nodes take turns.")  # fmt: skip
@click.option("--place", metavar="TEXT", help="Only hosts whose place in the inventory contains this.")
@run_options()
def shutdown(
    hosts: tuple[str, ...], when_idle: bool, at: str | None, force: bool, idle: int | None, place: str | None,
    options: Options,
) -> int:  # fmt: skip
    """Switch hosts off: nodes first, and storage only when nobody mounts it. People are told first.

    A node with people on it is left out, unless you say how long they get. `gpuadmin power on` switches on those
    that have a BMC.

    \b
    gpuadmin shutdown all --at 17:30        # the day the building loses power
    gpuadmin shutdown gpu3 --when-idle
    gpuadmin shutdown gpu --idle 4 --place "room 301"       # it is too hot there; nodes take turns
    """
    from gpuadmin.actions.shutdown import shutdown

    if idle is not None and (when_idle or at or force):
        raise click.UsageError("--idle takes nodes that nobody uses: there is nobody to wait for or to send away")
    return shutdown(options, hosts, when_idle=when_idle, at=at, force=force, idle=idle, place=place)


@click.command("power")
@click.argument("action", type=click.Choice(("status", "on", "off", "cycle")))
@click.argument("hosts", metavar="[HOST]...", nargs=-1, shell_complete=pattern())
@click.option("--hard", is_flag=True, help="Also cut off hosts that answer, without asking them: the last resort.")
@click.option("--force", is_flag=True, help="Send away people who are on hosts that answer.")
@click.option(
    "--queue", is_flag=True, help="Of nodes that `shutdown --idle` switched off, only as many as jobs wait for."
)
@run_options()
def power(action: str, hosts: tuple[str, ...], hard: bool, force: bool, queue: bool, options: Options) -> int:
    """Show whether hosts are on, or switch them on, off, or off and on, by their BMC or Wake-on-LAN.

    Each host is asked first: one that answers shuts down by itself, as with shutdown, and stays on while people use
    it. One that does not answer is cut off by its BMC, after you have seen whose jobs were there. Storage comes back
    before nodes. The BMCs are asked from the storage host, or from another that answers.

    \b
    gpuadmin power status
    gpuadmin power cycle gpu3
    gpuadmin power on --queue       # what `timers.verbs: [power]` does every ten minutes
    """
    from gpuadmin.actions.power import power, switch_on_needed

    if (hard or force) and action not in ("off", "cycle"):
        raise click.UsageError("--hard and --force go with off and cycle")
    if queue:
        if action != "on":
            raise click.UsageError("--queue is for `power on`")
        return switch_on_needed(options, hosts)
    if action != "status" and not hosts:
        raise click.UsageError(f"which hosts? gpuadmin power {action} HOST...")
    return power(options, action, hosts, hard=hard, force=force)

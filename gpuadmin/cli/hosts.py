"""The verbs of hosts: set them up, look at them, find what is wrong."""

from __future__ import annotations

from pathlib import Path

import click

from gpuadmin.cli._complete import hosts, paths, pattern, people
from gpuadmin.cli._options import (
    HostCommand,
    WholeNumber,
    mail_options,
    parse_words,
    power_options,
    run_options,
    site_option,
)
from gpuadmin.options import MailOptions, Options


@click.command("status")
@run_options(changes=False)
def status(options: Options) -> int:
    """Show the whole cluster on one screen: hosts, GPUs, people, disks, images, the newest backup, what is left to do.

    It changes nothing. A host that does not answer is a row that says so; what is not known is called unknown.
    """
    from gpuadmin.actions.status import status

    return status(options)


@click.command("diagnose")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=people())
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    shell_complete=pattern(),
    help="Only there, as --limit; without NAME the hosts themselves are looked at; repeatable.",
)
@click.option(
    "--bundle",
    metavar="FILE",
    shell_complete=paths("file"),
    help="Write the evidence to an archive for whoever helps, without keys, mails, names and command lines.",
)
@click.option(
    "--restart-docker",
    "restart",
    is_flag=True,
    help="Then restart NAME's Docker daemon where it is set up, through their own user manager; containers end.",
)
@click.option("--no-trial", is_flag=True, help="Do not begin a session of NAME's to see what works in it.")
@run_options()
def diagnose(
    name: str | None, hosts: tuple[str, ...], bundle: str | None, restart: bool, no_trial: bool, options: Options
) -> int:
    """Say why something does not work for somebody, or on a host: the cause, what to do, and where it was seen.

    It changes nothing. Where NAME may log in, it begins a session of theirs for some seconds and ends it: the shell, a
    file, a process, Docker's socket. It ends with what was not looked at; what is not known is called unknown.
    Exit code 0: what was checked is fine; 6: something stops or hinders; 4: a host did not answer.

    \b
    gpuadmin diagnose minji
    gpuadmin diagnose minji --host node3
    gpuadmin diagnose --host node3
    gpuadmin diagnose minji --host node3 --restart-docker
    """
    from gpuadmin.actions.diagnose import diagnose

    if name is None and not hosts and options.limit is None:
        raise click.UsageError("name somebody, or a host: gpuadmin diagnose NAME, gpuadmin diagnose --host HOST")
    if hosts and options.limit is not None:
        raise click.UsageError("--host and --limit say the same; give one of them")
    if restart and (name is None or bundle is not None):
        raise click.UsageError("--restart-docker needs NAME, and no --bundle")
    return diagnose(options, name, hosts, bundle, restart, trial=not no_trial)


@click.command("disk")
@click.argument("name", metavar="[USER]", required=False, shell_complete=people())
@run_options(changes=False)
def disk(name: str | None, options: Options) -> int:
    """Show whose files fill the disks: homes, Docker's data and scratch; of USER, the largest directories, too.

    Nothing is walked for it: every host measures once a day, and says when. It changes nothing.

    \b
    gpuadmin disk
    gpuadmin disk minji
    gpuadmin disk --limit storage
    """
    from gpuadmin.actions.disk import show_disk

    return show_disk(options, name)


@click.command("install")
@click.argument("host", metavar="[HOST]", required=False, shell_complete=hosts())
@click.option("--stick", metavar="FILE", type=click.Path(path_type=Path), help="Make the site's stick: this file.")
@click.option("--image", metavar="NAME", help="With --stick: the image.  [default: the newest with a full stream]")
@click.option("--kernel", metavar="TEXT", default="", help="With --stick: further arguments of all its kernels.")
@click.option("--mac", metavar="MAC", help="A MAC address of the machine: another machine refuses.")
@click.option("--disk", metavar="BY-ID", default="", help="Its name in /dev/disk/by-id; without it all are shown.")
@click.option("--address", metavar="ADDRESS", help="Where the stick answers.  [default: the host's own address]")
@click.option("--network", multiple=True, metavar="FILE", help="A .network file, in place of DHCP; repeatable.")
@click.option("--erase", metavar="HOST", help="With --yes, for a disk that is not empty: the name to be typed.")
@run_options(limit=False)
def install(
    options: Options, host: str | None, stick: Path | None, image: str | None, kernel: str, mac: str | None,
    disk: str, address: str | None, network: tuple[str, ...], erase: str | None,
) -> int:  # fmt: skip
    """Make an empty machine a node: boot it from the site's stick, and have one named disk written.

    The stick writes nothing by itself. HOST is in the inventory. What is on the disk is shown, and the host's name is
    typed before it goes. Cut off anywhere, the same again begins anew.

    \b
    gpuadmin install --stick site.img
    gpuadmin install gpu3 --mac 3c:ec:ef:12:34:56 --address 10.1.0.201 --disk nvme-SAMSUNG_MZ1_S5XX
    """
    from gpuadmin.actions import install as action

    if (host is None) == (stick is None) or (host is None) != (mac is None):
        raise click.UsageError("name a HOST and its --mac, which stands on the machine; or give --stick FILE")
    if stick is not None:
        return action.make_stick(options, stick, image, kernel)
    return action.install(options, str(host), str(mac).lower().replace("-", ":"), disk, address, network, erase)


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
    """Make machines that one can log in to ready for gpuadmin.

    Shows and pins the host key, installs Python and sudo where they are missing, makes the admin account (admin.user)
    with sudo and the public key of admin.ssh_key, and proves it by logging in. No login of anybody is taken away, and
    password logins stay as they are. --ask-pass asks for the password of USER, --ask-become-pass for its sudo password.
    """
    from gpuadmin.actions.bootstrap import Entrance, bootstrap

    return bootstrap(options, names, Entrance(login, identity), uid=uid, home=home)


@click.command("provision")
@run_options()
def provision(options: Options) -> int:
    """Set nodes and the storage host up: all roles that a host's groups call for, and the accounts."""
    from gpuadmin.actions.provision import provision

    return provision(options)


@click.command("drift")
@run_options(changes=False)
def drift(options: Options) -> int:
    """Report where hosts differ from what the site says. Changes nothing.

    First comes who is root there, or could be, beside root and the admin account; then what is not as packages and
    distributions set it up; then what `gpuadmin provision` would change.

    Exit code 0: no difference anywhere; 6: some host differs; 3: some host failed; 4: some host did not answer.
    """
    from gpuadmin.actions.drift import drift

    return drift(options)


@click.command("compare")
@click.argument("hosts", metavar="[HOST]...", nargs=-1, shell_complete=pattern())
@click.option(
    "--section", "sections", multiple=True, metavar="SECTION",
    help="Only this section (ssh, kernel, packages, …), and all of it; may be given several times.",
)  # fmt: skip
@run_options(changes=False)
def compare(hosts: tuple[str, ...], sections: tuple[str, ...], options: Options) -> int:
    """Find the host that is not like the others: ssh, kernel, packages, mounts, units, firewall, firmware, and more.

    What most hosts have is usual, and whoever has something else is named. Hosts of one group are compared with each
    other where groups differ. Names, addresses and identifiers of a host are left out. It changes nothing.

    \b
    gpuadmin compare                            # ssh times out only on server x: why?
    gpuadmin compare gpu1 gpu2                  # of two, none is the odd one
    gpuadmin compare --section packages

    Exit code 0: no difference; 6: some host differs; 3: some host failed, or a section could not be read; 4: some host
    did not answer.
    """
    from gpuadmin.actions.compare import compare_hosts

    return compare_hosts(options, hosts, sections)


@click.command("audit")
@click.argument("hosts", metavar="[HOST]...", nargs=-1, shell_complete=pattern())
@click.option("--record", is_flag=True, help="Write what is where into hardware.json of the site, after it was shown.")
@click.option("--labels", metavar="FILE.html", type=click.Path(path_type=Path),
              help="Write a page of labels for the machines, from what is recorded; ask no host.")  # fmt: skip
@run_options()
def audit(hosts: tuple[str, ...], record: bool, labels: Path | None, options: Options) -> int:
    """Say which box is which and whose, what moved since it was recorded, and who has power over the hosts.

    First the boxes: place, owner and purpose as the inventory has them, and the chassis' serial number. Then GPUs,
    network cards and disks that moved, were swapped or vanished since --record; who is root, or could be, beside those
    whom the site declares; sshd's settings against audit.ssh of gpuadmin.yml; and private keys, tokens and the like
    that others can read, by name and owner. It changes nothing on the hosts, and nothing of the site without --record.

    \b
    gpuadmin audit --record     # once, and whenever what it says is meant
    gpuadmin audit
    gpuadmin audit --labels labels.html     # name, place, owner, serial number, a QR code to the dashboard

    Exit code 0: nothing found; 6: something was; 3: some host failed, or nothing was found and a part could not be
    looked at; 4: some host did not answer.
    """
    if labels is not None and record:
        raise click.UsageError("--labels asks no host, so there is nothing to --record: one after the other")
    from gpuadmin.actions.audit import audit

    return audit(options, hosts, record=record, labels=labels)


@click.command("hand-over")
@click.option("--to", metavar="KEYFILE|ADMIN", help="Seal the secrets for this ssh public key, or a declared admin's.")
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(path_type=Path),
    help="The sealed bundle, a new file. [default: hand-over-DATE.age, here]",
)  # fmt: skip
@run_options(changes=False, check="Show what would be sealed; write nothing.")
def hand_over(options: Options, to: str | None, output: Path | None) -> int:
    """List what the next admin needs, and seal the secrets for their key.

    Each line says what it is, where, whether it is in order, missing, only yours or unknown, and which command settles
    it: keys, passwords and certificates, the site's repository, timers, backups, records, admins, and what works only
    from your account. Hosts are only looked at; without them their lines are unknown. The bundle needs age; it holds
    the secrets that are no part of the repository, and no private key that somebody logs in with.

    \b
    gpuadmin hand-over
    gpuadmin hand-over --to jiwon.pub -o jiwon.age
    age -d -i ~/.ssh/id_ed25519 jiwon.age | tar -x -C NEW_DIRECTORY     # the new admin

    Exit code 0: all is in order; 6: something is missing or only yours; 3: some host failed, or a line is unknown; 4:
    some host did not answer.
    """
    from gpuadmin.actions.hand_over import hand_over

    if output is not None and to is None:
        raise click.UsageError("-o goes with --to: only a bundle is written")
    return hand_over(options, to=to, output=output)


@click.command("logs")
@click.argument("hosts", metavar="[HOST]...", nargs=-1, shell_complete=pattern())
@click.option("--unit", metavar="UNIT", help="Only of this unit: slurmd, or 'docker*'.")
@click.option("--since", metavar="TIME", help="From when on, as journalctl has it: -2h, yesterday, '2026-11-29 07:00'.")
@click.option("--until", metavar="TIME", help="Until when.")
@click.option("--grep", metavar="PATTERN", help="Only lines that this regular expression matches.")
@click.option("--lines", type=WholeNumber(1, 10000), default=200, show_default=True, help="The last so many of each.")
@run_options(changes=False)
def logs(options: Options, hosts: tuple[str, ...], lines: int, **words: str | None) -> int:
    """Show what the system of hosts logged. The monitor host has it, also of a host that is dead.

    Logins, sudo and su are among it; what else people's programs log stays on their nodes.

    \b
    gpuadmin logs gpu3 --since -2h
    gpuadmin logs --grep Xid --since yesterday
    """
    from gpuadmin.actions.logs import show_logs

    return show_logs(options, hosts, lines, words)


@click.command("ssh", cls=HostCommand)
@click.argument("host")
@click.argument("arguments", metavar="[-- ARGS]...", nargs=-1, type=click.UNPROCESSED)
@site_option
def ssh(host: str, arguments: tuple[str, ...], site: str | None) -> int:
    """Log in to a host as the admin account, with the site's key and known_hosts.

    ARGS are ssh's own, as they come after the host: options (-L 3000:localhost:3000), then a command. The exit code is
    ssh's. No plan is made and no record is kept. Options for gpuadmin come before HOST, or before `--`.
    """
    from gpuadmin.actions.ssh import ssh

    return ssh(site, host, arguments[1:] if arguments[:1] == ("--",) else arguments)


@click.command("maintain")
@click.argument("hosts", required=False)
@click.argument("words", metavar="[-- VERB...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--from", "begin", metavar="TIME", help="When it begins: '2026-11-28 18:00'.")
@click.option("--until", metavar="TIME", help="When it is over.")
@click.option("--reason", metavar="TEXT", help="What for: everybody reads it.")
@click.option("--move", metavar="ID", help="Move one to --from and --until; everybody is told.")
@click.option("--cancel", metavar="ID", help="Call one off: jobs start again, and logins no longer show it.")
@click.option("--begin", "now", metavar="ID", help="Its time has come: run its VERB; when that is done it is over.")
@click.option("--due", is_flag=True, help="The same for one whose time has come, if nobody has begun it.")
@mail_options
@run_options()
def maintain(
    options: Options, mail: MailOptions, hosts: str | None, words: tuple[str, ...], begin: str | None,
    until: str | None, reason: str | None, move: str | None, cancel: str | None, now: str | None, due: bool,
) -> int:  # fmt: skip
    """Announce that nodes are maintained, and hold it: no job starts and no grant is given that would run into it.

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
        # a mistake in the verb's words is reported now, and not at the window's time
        if words and not parse_words(click.get_current_context(), words[0], ("--yes", *words[1:])):
            raise click.UsageError(f"{words[0]} is no verb of gpuadmin")
        return action.maintain(options, mail, (begin, until), hosts or "", reason or "", words, move)
    if begin or until or reason or mail != MailOptions():
        raise click.UsageError("which nodes? gpuadmin maintain [OPTIONS] HOSTS [-- VERB...]")
    if cancel is not None:
        return action.take_back(options, cancel)
    if now is not None:
        return action.begin_window(options, now)
    return action.begin_due(options) if due else action.list_announcements(options)


@click.command("run", cls=HostCommand)
@click.argument("hosts")
@click.argument("words", metavar="-- CMD...", nargs=-1, type=click.UNPROCESSED)
@run_options(changes=False, check="Only look which hosts can be reached; run nothing.")
def run(options: Options, hosts: str, words: tuple[str, ...]) -> int:
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
              help="Only N nodes, of those that nobody is on, in turn.")  # fmt: skip
@click.option("--place", metavar="TEXT", help="Only hosts whose place in the inventory has this in it.")
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
    gpuadmin shutdown gpu --idle 4 --place "room 301"       # it is too hot there: whose turn is longest ago
    """
    from gpuadmin.actions.shutdown import shutdown

    if idle is not None and (when_idle or at or force):
        raise click.UsageError("--idle takes nodes that nobody is on: there is nobody to wait for or to send away")
    return shutdown(options, hosts, when_idle=when_idle, at=at, force=force, idle=idle, place=place)


@click.command("power")
@click.argument("action", type=click.Choice(("status", "on", "off", "cycle")))
@click.argument("hosts", metavar="[HOST]...", nargs=-1, shell_complete=pattern())
@click.option("--hard", is_flag=True, help="Cut hosts off that answer, too, and ask them nothing: the last resort.")
@click.option("--force", is_flag=True, help="Send away people who are on hosts that answer.")
@click.option(
    "--queue", is_flag=True, help="Of nodes that `shutdown --idle` switched off, only as many as jobs wait for."
)
@run_options()
def power(action: str, hosts: tuple[str, ...], hard: bool, force: bool, queue: bool, options: Options) -> int:
    """Show whether hosts are on, or switch them on, off, or off and on, by their BMC or Wake-on-LAN.

    Each host is asked first: one that answers goes by itself, as by shutdown, and stays while people are on it. One
    that does not answer is cut off by its BMC, after you have seen whose jobs were there. Storage comes back before
    nodes. The BMCs are asked from the storage host, or from another that answers.

    \b
    gpuadmin power status
    gpuadmin power cycle gpu3
    gpuadmin power on --queue       # what `timers.verbs: [power]` does every ten minutes
    """
    from gpuadmin.actions.power import power, switch_on_needed

    if queue:
        if action != "on":
            raise click.UsageError("--queue is for `power on`")
        return switch_on_needed(options, hosts)
    if action != "status" and not hosts:
        raise click.UsageError("which hosts? gpuadmin power on HOST...")
    return power(options, action, hosts, hard=hard, force=force)

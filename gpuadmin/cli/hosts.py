"""The verbs that look at hosts, find what is wrong, and reach them."""

from __future__ import annotations

from pathlib import Path

import click

from gpuadmin.cli._complete import paths, pattern, people
from gpuadmin.cli._options import HostCommand, WholeNumber, run_options, site_option
from gpuadmin.options import Options


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
    Exit code 0: what was checked is fine; 6: something stops or hinders; 3: a host failed; 4: one did not answer.
    With --restart-docker, 0 where it was restarted, or there was none to restart.

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
    that others can read, by name and owner. It changes nothing on the hosts and, without --record, nothing in the site.

    \b
    gpuadmin audit --record     # once, and whenever the changes that it shows are intended
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
    gpuadmin hand-over --to jiwon.pub -o ~/jiwon.age
    age -d -i ~/.ssh/id_ed25519 ~/jiwon.age | tar -x -C NEW_DIRECTORY     # the new admin

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

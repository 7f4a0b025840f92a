"""The verbs of backups."""

from __future__ import annotations

import re

import click

from gpuadmin.cli._complete import pattern, people
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("backup")
@click.option("--label", metavar="WORD", default="manual", show_default=True, help="A word for the backup's name.")
@click.option("--verify/--no-verify", default=True, help="Read every home a second time and compare. [default: yes]")
@run_options()
def backup(label: str, verify: bool, options: Options) -> int:
    """Back the homes up now: a read-only snapshot, a manifest of every home, and the second copy if there is a host."""
    from gpuadmin.actions.backup import backup

    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?", label) or label == "daily":
        raise click.BadParameter(
            "use small letters, digits, '.' and '-'; 'daily' is the timer's", param_hint="--label"
        )  # fmt: skip
    return backup(options, label=label, verify=verify)


@click.command("list-backups")
@click.argument("user", metavar="[USER]", required=False, shell_complete=people(removed=True))
@run_options(changes=False)
def list_backups(user: str | None, options: Options) -> int:
    """Show the backups there are, whose homes are in them, and until when they stay. Changes nothing."""
    from gpuadmin.actions.list_backups import list_backups

    return list_backups(options, user)


@click.command("verify-backup")
@click.argument("name", metavar="[BACKUP]", required=False)
@click.option(
    "--user",
    "users",
    metavar="USER",
    multiple=True,
    shell_complete=people(removed=True),
    help="Only this home; repeatable. [default: all]",
)
@run_options()
def verify_backup(name: str | None, users: tuple[str, ...], options: Options) -> int:
    """Read a backup of the storage host (the newest, if none is named) and compare every file with the manifest."""
    from gpuadmin.actions.verify_backup import verify_backup

    return verify_backup(options, name, users)


@click.command("restore-home")
@click.argument("user", metavar="[USER]", required=False, shell_complete=people(removed=True))
@click.option("--all", "everybody", is_flag=True, help="Every home that is missing, or that nobody has used yet.")
@click.option("--from", "backup", metavar="BACKUP", help="Which backup. [default: the newest that was verified]")
@click.option("--path", metavar="SUB", default="", help="Only this part of the home.")
@click.option("--to", "target", metavar="DIR", help="A directory on the storage host that is not there yet.")
@click.option("--in-place", is_flag=True, help="To where it was; what is there now is kept beside it.")
@run_options()
def restore_home(
    user: str | None,
    everybody: bool,
    backup: str | None,
    path: str,
    target: str | None,
    in_place: bool,
    options: Options,
) -> int:
    """Bring a home, or a part of it, back from a backup: beside the home, never over it.

    Owners and modes are kept, and the copy is compared with the backup. For somebody who has no account
    it goes to the attic on the storage host, where root alone can enter.

    With --all: after a storage host was lost, each home to its place from the newest verified backup that any host has.
    The plan says how old each is. If it is interrupted, run it again: it continues.
    """
    from gpuadmin.actions.restore_home import restore_all, restore_home

    if everybody == (user is not None) or (everybody and (backup or path or target or in_place)):
        raise click.UsageError("name a USER, or --all without further options")
    if user is None:
        return restore_all(options)
    if target and in_place:
        raise click.UsageError("--to and --in-place exclude each other")
    return restore_home(options, user, backup=backup, path=path, target=target, in_place=in_place)


@click.command("promote")
@click.argument("host", metavar="BACKUPHOST", shell_complete=pattern())
@click.option("--read-only", is_flag=True, help="People can read their homes, and not write, until the next promote.")
@run_options(limit=False)
def promote(host: str, read_only: bool, options: Options) -> int:
    """Serve the homes from the host of the second copies, because the storage host is dead or cut off.

    The plan says how old each person's copy is, and what is newer elsewhere. The copies stay: homes are snapshots of
    them. Afterwards the inventory has the host in storage and the old one in backup, and nodes mount again without a
    reboot. It is refused while the old one serves. If it is interrupted, run it again: it continues.
    """
    from gpuadmin.actions.promote import promote

    return promote(options, host, read_only=read_only)


@click.command("clear-leftovers")
@run_options()
def clear_leftovers(options: Options) -> int:
    """Move what a wipe left because its backup lacks it to the attic on the storage host, where root alone can enter.

    A file that was changed after the backup is never wiped: it stays out of sight, and every backup and reset says so.
    """
    from gpuadmin.actions.clear_leftovers import clear_leftovers

    return clear_leftovers(options)

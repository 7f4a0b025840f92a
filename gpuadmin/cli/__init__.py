"""The command line. Each section of verbs is a file of this package, imported only when one of them is called."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import click

from gpuadmin import __version__
from gpuadmin.common.text import the_page
from gpuadmin.console import echo, echo_document
from gpuadmin.errors import ExitCode, GpuadminError, InterruptedRun, find_hint

# Section -> verb -> the line that `gpuadmin --help` shows, as docs/verbs.md has them. Kept here so that the help
# needs no import of the verbs; a contract test compares it with the files and that page.
SECTIONS: dict[str, dict[str, str]] = {
    "A site": {
        "init": "Write a new site directory.",
        "adopt": "Write a site for machines as they are.",
        "check": "Check a site for mistakes.",
        "trust": "Fetch, show and pin the ssh host keys of hosts.",
    },
    "Hosts": {
        "status": "Show the whole cluster on one screen.",
        "diagnose": "Say why something does not work, and what to do.",
        "disk": "Show whose files fill the disks.",
        "install": "Make an empty machine a node, from a stick.",
        "bootstrap": "Make machines ready: admin account, key, sudo, Python.",
        "provision": "Set nodes and the storage host up.",
        "drift": "Report where hosts differ from the site.",
        "compare": "Find the host that is not like the others.",
        "audit": "Say which box is which, and who has power.",
        "hand-over": "List what the next admin needs; seal the secrets.",
        "logs": "Show what hosts logged, also of one that is dead.",
        "ssh": "Log in to a host as the admin.",
        "run": "Run a command on hosts, and show what each answers.",
        "upgrade": "Upgrade the packages of hosts, one after the other.",
        "reboot": "Reboot hosts; storage below nodes that let it go.",
        "shutdown": "Switch hosts off, nodes before storage.",
        "power": "Switch hosts on and off from afar, also hung ones.",
        "maintain": "Announce a window in which nodes are maintained; hold it.",
    },
    "GPUs": {
        "list-gpus": "Show every GPU, and what is missing or wrong.",
        "top": "Show what every GPU does, who holds it, what is free.",
        "usage": "Show how many GPU-hours were held and used.",
        "report": "Mail a month's report, and write it as a page.",
        "idle": "Show who holds a GPU without using it.",
        "dashboard": "Open the web page of all this as an admin.",
        "grant": "Give somebody GPUs of a node until a time.",
        "revoke": "End grants before their time.",
        "grants": "Show who was granted which GPUs.",
        "queue": "Show who has GPUs of Slurm's queue, and who waits.",
        "drain": "Let nodes take no further jobs of the queue.",
        "resume": "Let nodes take jobs again.",
        "burn-in": "Load a node's GPUs before it joins, or comes back from repair.",
        "mig": "Divide GPUs into MIG devices, as the site says.",
    },
    "People": {
        "add-user": "Give people an account on every node.",
        "change-user": "Change keys, address, note, group or Docker.",
        "remove-user": "Lock and remove accounts; homes stay.",
        "lock-user": "Stop people from logging in.",
        "unlock-user": "Let locked people log in again.",
        "extend-user": "Set until when accounts are valid.",
        "renumber": "Give people one uid on every host.",
        "move-homes": "Move homes of nodes to the storage host.",
        "move-docker": "Carry what root's Docker has into people's own.",
        "list-users": "Show accounts and where they are missing.",
        "sync-users": "Bring every node to what users.yml says.",
        "user-guide": "Write the guide for your people.",
        "announce": "Tell people something: a mail, and at login.",
    },
    "Terms": {
        "call-for-applications": "Write the call for a term's accounts, and its survey.",
        "import-applications": "Give applicants of a survey their accounts.",
        "notify": "Mail the reminders that are due.",
        "extend-term": "Let people stay for the next term.",
        "semester-reset": "End the term: lock, back up, wipe, reopen.",
    },
    "Backups": {
        "backup": "Back the homes up now.",
        "list-backups": "Show backups and whose homes are in them.",
        "verify-backup": "Read a backup and compare it with its manifests.",
        "restore-home": "Bring a home, or a part of it, back.",
        "promote": "Serve homes from the second copies: the storage host is dead.",
        "clear-leftovers": "Move what a wipe could not delete to the attic.",
    },
    "Images": {
        "prepare-root": "Check and complete the disk layout that images need.",
        "build-image": "Build an image on the golden node, and try it there.",
        "push-image": "Move nodes to an image, batch by batch.",
        "rollback-image": "Move nodes back to the root they ran before.",
        "list-images": "Show images, what is in one, or whether it is right.",
        "prune-images": "Delete images and roots that nobody needs.",
    },
    "Around it": {
        "rehearse": "Run a verb on a twin of the site, then for real.",
        "runs": "List past runs, or show one.",
        "lab": "A virtual cluster on this machine.",
        "schema": "Print the JSON Schema of a site's files.",
        "completion": "Print the shell completion script.",
        "man": "Print the man page.",
    },
}
#: What a full or failing disk of this machine says.
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
VERBS = {verb: line for verbs in SECTIONS.values() for verb, line in verbs.items()}
#: The verbs of the take-over, which have a package of their own.
TAKEOVER = ("adopt", "renumber", "move-homes", "move-docker")
_UPKEEP = ("install", "bootstrap", "provision", "upgrade", "maintain", "reboot", "shutdown", "power")
#: Verb -> the file that has its command: that of its section (`A site`: site.py), unless it is named here.
FILES = {
    **{verb: f"gpuadmin.cli.{title.split()[-1].lower()}" for title, verbs in SECTIONS.items() for verb in verbs},
    **dict.fromkeys(SECTIONS["Around it"], "gpuadmin.cli.around"),
    **dict.fromkeys(TAKEOVER, "gpuadmin.takeover.cli"),
    **dict.fromkeys(_UPKEEP, "gpuadmin.cli.upkeep"),
    "lab": "gpuadmin.cli.lab",
}
#: A verb that an earlier gpuadmin had -> the words for what does the same now.
GONE = {
    "free": "`gpuadmin top --free`",
    "restore-queue": f"`gpuadmin restore-home _slurm`, and then what {the_page('slurm')} says",
    "show-image": "`gpuadmin list-images NAME`",
    "verify-image": "`gpuadmin list-images NAME --verify`",
}


class LazyGroup(click.Group):
    """A click group that imports a verb's file when the verb is used, not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = getattr(importlib.import_module(FILES[cmd_name]), cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, VERBS))
        for title, verbs in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(width), line) for verb, line in verbs.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from gpuadmin.similar import did_you_mean

            if args[0] in GONE:
                raise click.UsageError(f"{args[0]} is now {GONE[args[0]]}", ctx=ctx) from None
            if close := did_you_mean(args[0], VERBS):
                raise click.UsageError(f"{error.message} {close[0].upper()}{close[1:]}", ctx=ctx) from None
            raise


def _show_version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from gpuadmin.commit import read_commit

        commit = read_commit()
        echo(f"gpuadmin, version {__version__}" + (f" ({commit})" if commit else ""))
        context.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="A first try, without any machine of your own: gpuadmin lab up",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version,
    help="Show the version and the commit it was made from.",
)  # fmt: skip
def cli() -> None:
    """Run the life of a shared GPU cluster: nodes, accounts, images, and the end of each semester."""


def main(arguments: Sequence[str] | None = None) -> Any:
    """Run the command line and leave with its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # a verb makes few cycles; looking for them every 700 objects took a tenth of a look's time
    gc.set_threshold(50_000)
    try:
        _require_directory()
        # https://no-color.org; None: click checks whether the output is a terminal
        color = False if os.environ.get("NO_COLOR") else None
        with signals_interrupt():
            result = cli.main(args=arguments, prog_name="gpuadmin", standalone_mode=False, color=color)
        sys.exit(result if isinstance(result, int) else 0)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        echo("Interrupted.", err=True)
        _show_document(arguments, InterruptedRun("interrupted"))
        sys.exit(ExitCode.INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as error:
        echo(error.format_message(), err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _fail(arguments, error)
    except BrokenPipeError:
        # The reader of our output has gone (`gpuadmin runs | head`); nothing is left to say.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno not in _DISK and error.filename is None:
            raise
        where = f"{error.filename}: " if error.filename else ""
        what = "make room or mend the disk" if error.errno in _DISK else "look at what it is, its owner and its mode"
        hint = f"{what}; what was done is done, and the same again goes on from there"
        _fail(arguments, GpuadminError(f"{where}{error.strerror}, on this machine", hint=hint))


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """A signal that would end us interrupts as Ctrl-C does, so that what was begun is recorded; not one that whoever
    started us had us ignore (nohup).
    """
    numbers = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _fail(arguments: Sequence[str], error: click.ClickException) -> NoReturn:
    _show_document(arguments, error)
    hint = find_hint(error)
    echo(f"Error: {error.format_message()}" + (f"\nHint: {hint}" if hint else ""), err=True)
    _leave(error.exit_code)


def _require_directory() -> None:
    """Raise GpuadminError if the current directory was deleted: Ansible and relative paths need one."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise GpuadminError("the directory that you are in was deleted", hint="cd into another one") from None


def _leave(code: int) -> NoReturn:
    """Leave with an exit code, also where the rest of the output cannot be written: Python would make it 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os._exit(code)
    sys.exit(code)


def _show_document(arguments: Sequence[str], error: click.ClickException) -> None:
    """With --json an error is a document too."""
    if "--json" in arguments:
        from gpuadmin.report import error_document

        with suppress(OSError):  # a full disk below standard output is perhaps what the error is about
            echo_document(error_document(arguments, error))

"""The verbs of people: their accounts, and what they are told."""

from __future__ import annotations

from datetime import date
from typing import Any

import click

from gpuadmin.cli._complete import paths, pattern, people
from gpuadmin.cli._options import as_day, json_option, mail_options, page_options, run_options, site_option
from gpuadmin.options import MailOptions, Options


@click.command("add-user")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--from", "source", metavar="FILE", type=click.Path(dir_okay=False), help="A CSV or YAML file of people.")
@click.option("--email", help="Where mails about the account go.")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="KEY|FILE",
    shell_complete=paths("file"),
    help="ssh public key, or a file of them; repeatable.",
)
@click.option("--uid", type=int, help="uid and gid. [default: the next one that nobody ever had]")
@click.option("--expires", metavar="DATE", help="Last day of validity, YYYY-MM-DD.")
@click.option("--docker/--no-docker", default=None, help="Whether they may use rootless Docker. [default: yes]")
@click.option("--group", help="The group of people that they are in, such as a lab.")
@click.option("--project", "projects", multiple=True, help="A project that they work for in the queue; repeatable.")
@click.option("--note", help="A remark for the admins.")
@click.option(
    "--mail/--no-mail",
    "send",
    default=None,
    help="Whether they get the mail that applicants get: how to log in, Docker, conda. [default: mail.welcome]",
)
@mail_options
@run_options()
def add_user(
    names: tuple[str, ...],
    source: str | None,
    email: str | None,
    keys: tuple[str, ...],
    uid: int | None,
    expires: str | None,
    docker: bool | None,
    group: str | None,
    projects: tuple[str, ...],
    note: str | None,
    send: bool | None,
    mail: MailOptions,
    options: Options,
) -> int:
    """Give people an account on every node: uid, home on the storage host, ssh key, rootless Docker.

    Everything is validated before anything is changed. After a failure, run it again: it skips what is done.

    \b
    gpuadmin add-user minji --email minji@example.org --key ~/keys/minji.pub
    gpuadmin add-user minji --email minji@example.org --key ~/keys/minji.pub --mail
    gpuadmin add-user --from new-people.csv
    """
    from gpuadmin.actions.add_user import add_user

    given: dict[str, Any] = {"email": email, "uid": uid, "expires": expires, "docker": docker, "group": group}
    given |= {"note": note, "projects": list(projects) or None}
    fields = {field: value for field, value in given.items() if value is not None}
    if bool(names) == bool(source):
        raise click.UsageError("name the people to add, or give --from FILE (one of the two)")
    if source and (fields or keys):
        raise click.UsageError("--from takes everything from the file; leave the other options out")
    if len(names) > 1 and (keys or fields.keys() & {"uid", "email"}):
        raise click.UsageError("--uid, --key and --email belong to one person; use --from FILE for many")
    if mail != MailOptions():
        if send is False:
            raise click.UsageError("--no-mail: leave --preview, --mail-dir and --again out")
        send = True
    return add_user(options, mail, names, source=source, keys=keys, fields=fields, send=send)


@click.command("change-user")
@click.argument("name", metavar="NAME", shell_complete=people())
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="KEY|FILE",
    shell_complete=paths("file"),
    help="ssh public key, or a file of them, in place of all that users.yml has; repeatable.",
)
@click.option(
    "--add-key",
    "add_keys",
    multiple=True,
    metavar="KEY|FILE",
    shell_complete=paths("file"),
    help="A further ssh public key, or a file of them; repeatable.",
)
@click.option(
    "--remove-key",
    "remove_keys",
    multiple=True,
    metavar="KEY|FILE|FINGERPRINT|COMMENT",
    shell_complete=paths("file"),
    help="The ssh public key that goes; repeatable.",
)
@click.option("--email", help="Where mails about the account go; '' for no address.")
@click.option("--note", help="A remark for the admins; '' for none.")
@click.option("--group", help="The group of people that they are in; '' for none.")
@click.option(
    "--project",
    "projects",
    multiple=True,
    help="A project that they work for, in place of all that users.yml has; repeatable, '' for none.",
)
@click.option("--docker/--no-docker", default=None, help="Whether they are set up for rootless Docker.")
@run_options()
def change_user(
    name: str,
    keys: tuple[str, ...],
    add_keys: tuple[str, ...],
    remove_keys: tuple[str, ...],
    email: str | None,
    note: str | None,
    group: str | None,
    projects: tuple[str, ...],
    docker: bool | None,
    options: Options,
) -> int:
    """Change a person's ssh keys, address, note, group, projects or Docker: in users.yml, and on every node.

    What is not named stays as it is. After a failure: gpuadmin sync-users

    \b
    gpuadmin change-user minji --add-key ~/keys/minji-laptop.pub
    gpuadmin change-user minji --remove-key minji@old-laptop --email minji@example.org
    """
    from gpuadmin.actions.change_user import change_user

    if keys and (add_keys or remove_keys):
        raise click.UsageError("--key names all keys; leave --add-key and --remove-key out")
    if not (keys or add_keys or remove_keys or projects) and (email, note, group, docker) == (None,) * 4:
        options_there = "--key, --add-key, --remove-key, --email, --note, --group, --project, --docker"
        raise click.UsageError(f"say what to change: {options_there}")
    return change_user(
        options, name, keys=keys, add_keys=add_keys, remove_keys=remove_keys, email=email, note=note, group=group,
        docker=docker, projects=projects or None,
    )  # fmt: skip


@click.command("remove-user")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=people())
@click.option(
    "--archive-home",
    is_flag=True,
    help="Move each home to the attic on the storage host, where root alone can enter.",
)
@click.option(
    "--forget",
    is_flag=True,
    help="Free the uids of people who were removed. Nothing of theirs may be left, not even in a backup.",
)
@run_options()
def remove_user(names: tuple[str, ...], archive_home: bool, forget: bool, options: Options) -> int:
    """Lock and remove accounts everywhere. Homes and Docker data stay, unless --archive-home.

    The uid is kept out of use in users.yml, because files on disks and in backups still carry it.
    """
    from gpuadmin.actions.remove_user import forget_user, remove_user

    if forget and archive_home:
        raise click.UsageError("--forget is for people whose home is gone: leave --archive-home out")
    if forget:
        return forget_user(options, names)
    return remove_user(options, names, archive_home=archive_home)


@click.command("lock-user")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=people(locked=False))
@run_options()
def lock_user(names: tuple[str, ...], options: Options) -> int:
    """Stop people from logging in, by key or password, on every node. Nothing of theirs is touched."""
    from gpuadmin.actions.change_user import change_access

    return change_access("lock-user", options, names, {"locked": True}, "refuse every login from now on")


@click.command("unlock-user")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=people(locked=True))
@run_options()
def unlock_user(names: tuple[str, ...], options: Options) -> int:
    """Let locked people log in again, until their account expires."""
    from gpuadmin.actions.change_user import change_access

    return change_access("unlock-user", options, names, {"locked": False}, "allow logins again")


@click.command("extend-user")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=people())
@click.option(
    "--expires",
    metavar="DATE",
    required=True,
    callback=as_day,
    help="Last day of validity, YYYY-MM-DD, or 'never'.",
)
@run_options()
def extend_user(names: tuple[str, ...], expires: date | None, options: Options) -> int:
    """Set until when accounts are valid."""
    from gpuadmin.actions.change_user import change_access

    words = "without an end" if expires is None else f"valid until {expires}"
    return change_access("extend-user", options, names, {"expires": expires}, words)


@click.command("list-users")
@click.option("--offline", is_flag=True, help="Only what users.yml says; ask no host.")
@run_options(changes=False)
def list_users(offline: bool, options: Options) -> int:
    """Show every account, and where it is missing or differs. Changes nothing."""
    from gpuadmin.actions.list_users import list_users

    return list_users(options, offline=offline)


@click.command("sync-users")
@run_options()
def sync_users(options: Options) -> int:
    """Make every host what users.yml says: after a node was down, or after you edited users.yml."""
    from gpuadmin.actions.sync_users import sync_users

    return sync_users(options)


@click.command("user-guide")
@page_options
@site_option
@json_option
def user_guide(language: str | None, output: str | None, site: str | None, as_json: bool) -> int:
    """Write the guide for your people: your nodes and addresses, an ssh config to paste, paths, dates, whom to ask.

    Without --output it is printed as Markdown. A file of the same name in the site's templates/guide/ takes a
    template's place. `mail.guide` names its address in the welcome mail, `mail.attach_guide` sends it along.

    \b
    gpuadmin user-guide --output public/    # Markdown, and one HTML page, in each of the mails' languages
    gpuadmin user-guide --language ko
    """
    from gpuadmin.actions.user_guide import user_guide

    return user_guide(site, language=language, output=output, as_json=as_json)


@click.command("announce")
@click.option("--ko", metavar="TEXT|@FILE", help="The Korean text; its first line is the subject.")
@click.option("--en", metavar="TEXT|@FILE", help="The English text; its first line is the subject.")
@click.option("--from", "begin", metavar="YYYY-MM-DD", callback=as_day, help="First day at login.  [default: today]")
@click.option("--until", metavar="YYYY-MM-DD", callback=as_day, help="Last day at login.")
@click.option(
    "--on", metavar="PATTERN", shell_complete=pattern(),
    help="At login of these nodes alone, and mail only to those who are on them now.",
)  # fmt: skip
@click.option("--no-mail", is_flag=True, help="Only at login.")
@click.option("--list", "show", is_flag=True, help="Show what is and was announced.")
@click.option("--take-back", "back", metavar="ID", help="Take one back from logins; mails stay sent.")
@mail_options
@run_options()
def announce(
    ko: str | None,
    en: str | None,
    begin: date | None,
    until: date | None,
    on: str | None,
    no_mail: bool,
    show: bool,
    back: str | None,
    mail: MailOptions,
    options: Options,
) -> int:
    """Tell people something: a mail once each, now, and a message at login until it is over.

    The same command again is the same announcement: it reaches hosts that were away, and mails nobody twice.

    \b
    gpuadmin announce --ko @power.ko.txt --en @power.en.txt --until 2026-11-28 --preview
    gpuadmin announce --ko '점검: 오늘 18시' --en 'Maintenance: today 18:00' --until 2026-11-23 --on gpu3
    gpuadmin announce --take-back 1f2e3d4c
    """
    from gpuadmin.actions.announce import Announcing, announce, list_announcements, take_back

    texts = {"ko": ko, "en": en}
    if sum((show, back is not None, ko is not None or en is not None)) != 1:
        raise click.UsageError("give the texts (--ko, --en), or --list, or --take-back ID")
    if (show or back is not None) and (begin or until or on or no_mail or mail != MailOptions()):
        raise click.UsageError("--list and --take-back mail nobody and take no days or nodes: leave those options out")
    if show and (options.limit or options.ask_pass or options.ask_become_pass):
        raise click.UsageError("--list asks no host: leave --limit and the passwords out")
    if show:
        return list_announcements(options)
    if back is not None:
        return take_back(options, back)
    if until is None:
        raise click.UsageError("--until is missing: the last day on which people read it at login")
    return announce(options, mail, Announcing(texts, begin, until, on, not no_mail))

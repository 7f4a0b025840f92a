"""gpuadmin add-user"""

from __future__ import annotations

from typing import Any

import click

from gpuadmin.cli._complete import paths
from gpuadmin.cli._options import mail_options, run_options
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
@click.option("--group", help="The group of people that they are in, such as a lab (no Unix group).")
@click.option("--note", help="A remark for the admins.")
@click.option(
    "--mail/--no-mail",
    "send",
    default=None,
    help="Whether they get the mail that applicants get: how to log in, Docker, conda. [default: mail.welcome]",
)
@mail_options
@run_options()
def command(
    names: tuple[str, ...],
    source: str | None,
    email: str | None,
    keys: tuple[str, ...],
    uid: int | None,
    expires: str | None,
    docker: bool | None,
    group: str | None,
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
    given["note"] = note
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

"""gpuadmin change-user"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import paths, people
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


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
@click.option("--docker/--no-docker", default=None, help="Whether they are set up for rootless Docker.")
@run_options()
def command(
    name: str,
    keys: tuple[str, ...],
    add_keys: tuple[str, ...],
    remove_keys: tuple[str, ...],
    email: str | None,
    note: str | None,
    group: str | None,
    docker: bool | None,
    options: Options,
) -> int:
    """Change a person's ssh keys, address, note, group or Docker: in users.yml, and on every node.

    What is not named stays as it is. After a failure: gpuadmin sync-users

    \b
    gpuadmin change-user minji --add-key ~/keys/minji-laptop.pub
    gpuadmin change-user minji --remove-key minji@old-laptop --email minji@example.org
    """
    from gpuadmin.actions.change_user import change_user

    if keys and (add_keys or remove_keys):
        raise click.UsageError("--key names all keys; leave --add-key and --remove-key out")
    if not (keys or add_keys or remove_keys) and (email, note, group, docker) == (None,) * 4:
        raise click.UsageError("say what to change: --key, --add-key, --remove-key, --email, --note, --group, --docker")
    return change_user(
        options, name, keys=keys, add_keys=add_keys, remove_keys=remove_keys, email=email, note=note, group=group,
        docker=docker,
    )  # fmt: skip

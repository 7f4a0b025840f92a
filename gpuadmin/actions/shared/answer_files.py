"""Answer files: what installers of distributions are told, so that a machine is as `bootstrap` leaves it."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from gpuadmin.config.load import Site
from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.console import echo, echo_document
from gpuadmin.content import content_path
from gpuadmin.errors import ConfigError, RefusedError
from gpuadmin.options import Options
from gpuadmin.reading import read_text
from gpuadmin.report import local_document
from gpuadmin.templates import Templates

FILES = ("preseed.cfg", "user-data", "cloud-config")


def require_writable(directory: Path, hint: str) -> None:
    """Raise ConfigError where a file cannot be made in a directory."""
    if not (directory.is_dir() and os.access(directory, os.W_OK | os.X_OK)):
        raise ConfigError(f"{directory} is not a directory that you can write to", hint=hint)


def write_answer_files(site: Site, key: str, options: Options, directory: Path) -> int:
    """Write a site's answer files into a directory; `key`: the admin account's public one. Returns the exit code."""
    there = [name for name in (*FILES, "meta-data") if os.path.lexists(directory / name)]
    if there:  # guard: answer files replace no file
        raise RefusedError(f"{directory / there[0]} is there already", hint="name another directory, or move it away")
    nearest = next(one for one in (directory, *directory.parents) if os.path.lexists(one))
    require_writable(nearest, hint="name another one")
    user = site.settings.admin.user
    values = {"user": user, "command": make_command(user, key)}
    templates = Templates("answers", site.directory, keep_trailing_newline=True)
    texts = {name: templates.rendered(f"{name}.j2", values) for name in FILES}
    if not options.check:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in {**texts, "meta-data": ""}.items():  # which installers that find user-data want
            write_atomically(directory / name, text)
    if options.json:
        echo_document(
            local_document("install", {"files": [str(directory / name) for name in texts]}, site=site.directory)
        )
    else:
        echo(
            f"{'Would write' if options.check else 'Wrote'} {', '.join(texts)} and an empty meta-data into {directory}"
        )
        echo("Next, once a machine is installed: gpuadmin trust HOST; gpuadmin provision")
    return 0


def make_command(user: str, key: str) -> str:
    """What an installer does at its end as root of the new system, which is what the role `bootstrap` does: a line of a
    shell without a single quote.
    """
    defaults = yaml.safe_load(read_text(content_path("roles", "bootstrap", "defaults", "main.yml")))
    uid, home = defaults["bootstrap_uid"], defaults["bootstrap_home"].replace("{{ bootstrap_name }}", user)
    sudoers, keys = f"/etc/sudoers.d/gpuadmin-{user}", f"{home}/.ssh/authorized_keys"
    account = f'--system --user-group --create-home --shell /bin/bash --password "*" --uid {uid} --comment gpuadmin'
    return " && ".join(
        (
            f"mkdir -p {Path(home).parent}", f"useradd {account} --home-dir {home} {user}",
            f"install -d -m 700 -o {user} -g {user} {home}/.ssh", f"echo {' '.join(key.split()[:2])} >{keys}",
            f"chown {user}: {keys}", f"chmod 600 {keys}",
            f'echo "{user} ALL=(ALL:ALL) NOPASSWD: ALL" >{sudoers}', f"chmod 440 {sudoers}",
        )
    )  # fmt: skip

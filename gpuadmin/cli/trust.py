"""gpuadmin trust"""

from __future__ import annotations

import click

from gpuadmin.cli._options import json_option, site_option
from gpuadmin.console import say, say_document
from gpuadmin.words import counted


@click.command("trust")
@click.argument("names", metavar="[HOST]...", nargs=-1)
@click.option("--all", "everybody", is_flag=True, help="Every host of the site.")
@click.option("--replace", is_flag=True, help="Accept a key that differs from the pinned one (a reinstalled host).")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@site_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    names: tuple[str, ...],
    everybody: bool,
    replace: bool,
    yes: bool,
    site: str | None,
    as_json: bool,
) -> None:
    """Fetch the ssh host keys of hosts, show their fingerprints, and pin them into the site's known_hosts.

    Compare a fingerprint with what the host itself says: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub
    """
    from gpuadmin.cli._options import Options
    from gpuadmin.cli._verb import confirm, opened
    from gpuadmin.config.yamlfile import write_atomically
    from gpuadmin.errors import ConfigError, ExitCode, GpuadminError, RefusedError
    from gpuadmin.plan import Plan
    from gpuadmin.reading import read_text
    from gpuadmin.report import as_json as to_json
    from gpuadmin.report import document
    from gpuadmin.trust import fetch_host_keys, pinned_keys, with_pinned

    if bool(names) == everybody:
        raise click.UsageError("name the hosts, or give --all")
    options = Options(site=site, yes=yes, json=as_json)
    with opened("trust", options) as verb:
        inventory, path = verb.site.inventory, verb.site.known_hosts
        known = {host.name: host for host in inventory.hosts}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ConfigError(f"no such host: {', '.join(unknown)}", hint=f"hosts: {', '.join(known) or 'none'}")
        text = read_text(path)
        answers = fetch_host_keys(inventory.hosts if everybody else [known[name] for name in dict.fromkeys(names)])
        new, differing, states = [], [], {}
        for key in answers:
            if key.problem:
                states[key.host] = {"state": "unreachable", "fingerprint": None, "message": key.problem}
                say(f"{key.host}: no answer at {key.pattern}: {key.problem}", err=True)
                continue
            pinned = pinned_keys(text, key.pattern)
            state = "pinned" if key.blob in pinned.get(key.kind, ()) else "differs" if pinned else "new"
            states[key.host] = {"state": state, "fingerprint": key.fingerprint, "message": None}
            say(f"{key.host}: {key.kind} {key.fingerprint} ({state})", err=True)
            if state == "differs":
                differing.append(key)
            if state != "pinned":
                new.append(key)
        if differing and not replace:
            raise RefusedError(
                f"another key is pinned for {', '.join(key.host for key in differing)}: reinstalled, or not your host",
                hint="find out which; after a reinstallation: gpuadmin trust --replace HOST",
            )
        if new:
            confirm(Plan(title="", question=f"Pin {counted(len(new), 'host key')}?"), options)
            try:
                write_atomically(path, with_pinned(text, new))
            except OSError as error:
                raise GpuadminError(
                    f"{path}: {error.strerror}; nothing was pinned",
                    hint="the site must be writable for whoever runs this",
                ) from None
        say(f"{len(new)} pinned in {path}", err=True)
        code = ExitCode.HOST_UNREACHABLE if any(key.problem for key in answers) else ExitCode.DONE
        if as_json:
            body = document(
                "trust",
                site=verb.site.directory,
                run=None,
                check=False,
                status="failed" if code else "ok",
                result={"hosts": states},
            )
            say_document(to_json(body))
    ctx.exit(code)

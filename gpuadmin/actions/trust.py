"""Fetch, show and pin the ssh host keys of hosts."""

from __future__ import annotations

from collections.abc import Sequence

from gpuadmin.config.inventory import Host
from gpuadmin.config.known_hosts import pinned_keys
from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.console import echo
from gpuadmin.errors import ExitCode, GpuadminError, RefusedError
from gpuadmin.options import Options
from gpuadmin.outcome import finish
from gpuadmin.reading import read_text
from gpuadmin.session import Session, opened
from gpuadmin.text import counted
from gpuadmin.trust import fetch_host_keys, with_pinned


def trust(options: Options, names: Sequence[str], *, replace: bool) -> int:
    """Pin the keys of the hosts named, or of all. `replace`: also where another is pinned. Returns the exit code."""
    with opened("trust", options) as session:
        inventory = session.site.inventory
        states = pin(session, inventory.named(names) if names else inventory.hosts, replace=replace)
        silent = [name for name, state in states.items() if state["state"] == "unreachable"]
        if silent:
            echo(f"{len(silent)} of {counted(len(states), 'host')} did not succeed: {', '.join(silent)}", err=True)
            echo("Hint: when they answer: run it again", err=True)
        return finish(session, ExitCode.HOST_UNREACHABLE if silent else ExitCode.DONE, {"hosts": states})


def pin(session: Session, hosts: Sequence[Host], *, replace: bool = False) -> dict[str, dict[str, str | None]]:
    """Fetch the keys of hosts, show them, and pin those that are new, once that is confirmed; in check mode none.

    Returns for each host its `state` (pinned, new, differs, unreachable), `fingerprint` and `message`. Raises
    RefusedError where another key is pinned and `replace` is not given.
    """
    path = session.site.known_hosts
    text = read_text(path)
    new, differing = [], []
    states: dict[str, dict[str, str | None]] = {}
    for key in fetch_host_keys(hosts):
        if key.problem:
            states[key.host] = {"state": "unreachable", "fingerprint": None, "message": key.problem}
            echo(f"{key.host}: unreachable: {key.problem} ({key.pattern})", err=True)
            continue
        pinned = pinned_keys(text, key.pattern)
        state = "pinned" if key.blob in pinned.get(key.kind, ()) else "differs" if pinned else "new"
        states[key.host] = {"state": state, "fingerprint": key.fingerprint, "message": None}
        echo(f"{key.host}: {key.kind} {key.fingerprint} ({state})", err=True)
        if state == "differs":
            differing.append(key)
        if state != "pinned":
            new.append(key)
    if differing and not replace:
        raise RefusedError(
            f"another key is pinned for {', '.join(key.host for key in differing)}: reinstalled, or not your host",
            hint="find out which; after a reinstallation: gpuadmin trust --replace HOST",
        )
    if session.check:
        return states
    if new:
        session.confirm(f"Pin {counted(len(new), 'host key')}?")
        try:
            write_atomically(path, with_pinned(text, new))
        except OSError as error:
            raise GpuadminError(
                f"{path}: {error.strerror}; nothing was pinned",
                hint="the site must be writable for whoever runs this",
            ) from None
        echo(f"{counted(len(new), 'host key')} pinned in {path}", err=True)
    elif states and all(state["state"] == "pinned" for state in states.values()):
        echo("Nothing to do: all of them are pinned.", err=True)
    return states

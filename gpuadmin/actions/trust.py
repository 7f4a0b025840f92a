"""Fetch, show and pin the ssh host keys of hosts."""

from __future__ import annotations

from collections.abc import Sequence

from gpuadmin.common.text import counted
from gpuadmin.config.inventory import Host
from gpuadmin.config.known_hosts import pinned_keys, read_known_hosts, with_lines
from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.console import echo
from gpuadmin.errors import ConfigError, ExitCode, GpuadminError, RefusedError
from gpuadmin.host_keys import HostKey, fetch_host_keys
from gpuadmin.options import Options
from gpuadmin.outcome import finish
from gpuadmin.reading import expanded, read_text
from gpuadmin.results import way_out
from gpuadmin.session import Session, opened


def trust(options: Options, names: Sequence[str], *, replace: bool) -> int:
    """Pin the keys of the hosts named, or of all. `replace`: also where another is pinned. Returns the exit code."""
    with opened("trust", options) as session:
        inventory = session.site.inventory
        states = pin(session, inventory.named(names) if names else inventory.hosts, replace=replace)
        silent = [name for name, state in states.items() if state["state"] == "unreachable"]
        if silent:
            echo(f"{len(silent)} of {counted(len(states), 'host')} did not succeed: {', '.join(silent)}", err=True)
            reasons = {name: states[name]["message"] or "" for name in silent}
            way = way_out(reasons)
            echo(f"Hint: {f'{way}; then' if way else 'when they answer:'} run it again", err=True)
        return finish(session, ExitCode.HOST_UNREACHABLE if silent else ExitCode.DONE, {"hosts": states})


def pin(
    session: Session, hosts: Sequence[Host], *, replace: bool = False, place: str | None = None
) -> dict[str, dict[str, str | None]]:
    """Fetch the keys of hosts, show them, and pin those that are new, once that is confirmed; in check mode none.

    Returns for each host its `state` (pinned, new, differs, unreachable), `fingerprint` and `message`. Raises
    RefusedError if another key is pinned, or in the admin's own known_hosts, and `replace` is not given; and where the
    file was changed while somebody was asked. `place`: what people are told that the keys are pinned in.
    """
    path = session.site.known_hosts
    text = read_known_hosts(path)
    own = _own()
    new, differing = [], []
    states: dict[str, dict[str, str | None]] = {}
    for key in fetch_host_keys(hosts):
        if key.problem:
            states[key.host] = {"state": "unreachable", "fingerprint": None, "message": key.problem}
            echo(f"{key.host}: unreachable: {key.problem} ({key.pattern})", err=True)
            continue
        pinned = pinned_keys(text, key.pattern)
        state = "pinned" if key.blob in pinned.get(key.kind, ()) else _unpinned(key, pinned, own)
        states[key.host] = {"state": state, "fingerprint": key.fingerprint, "message": None}
        echo(f"{key.host}: {key.kind} {key.fingerprint} ({state})", err=True)
        if state == "differs":
            differing.append(key)
        if state != "pinned":
            new.append(key)
    if differing and not replace:  # guard: a host key that changed is not taken by itself
        raise RefusedError(
            f"another key is known for {', '.join(key.host for key in differing)}: reinstalled, or not your host",
            hint="find out which; after a reinstallation: gpuadmin trust --replace HOST",
        )
    if session.check:
        return states  # guard: a check pins no host key
    if new:
        # guard: a host key is pinned when it was confirmed -> str(f"Pin {counted(len(new), 'host key')}?")
        session.confirm(f"Pin {counted(len(new), 'host key')}?")
        if read_known_hosts(path) != text:  # guard: what is pinned while somebody is asked stays
            raise RefusedError(f"{path}: was changed while you were asked; nothing was pinned", hint="run it again")
        try:
            write_atomically(path, with_lines(text, [key.line for key in new]))
        except OSError as error:
            raise GpuadminError(
                f"{path}: {error.strerror}; nothing was pinned",
                hint="whoever runs this must be able to write to the site",
            ) from None
        echo(f"{counted(len(new), 'host key')} pinned in {place or path}", err=True)
    elif states and all(state["state"] == "pinned" for state in states.values()):
        echo("Nothing to pin: all of them are pinned.", err=True)
    return states


def _unpinned(key: HostKey, pinned: dict[str, set[str]], own: str) -> str:
    """The state of a key that the site does not have: `new`, or `differs` from one that it has, or its admin has."""
    if not pinned:
        known = pinned_keys(own, key.pattern).get(key.kind)
        if not known or key.blob in known:  # guard: a host that the admin's own ssh knows otherwise is not new -> True
            return "new"
        echo(f"{key.host}: ~/.ssh/known_hosts has another {key.kind} key", err=True)
    return "differs"


def _own() -> str:
    """The text of the admin's own known_hosts, which says what a host's key was; empty if it cannot be read."""
    try:
        return read_text(expanded("~/.ssh/known_hosts"))
    except ConfigError:  # ssh ignores it as well; and somebody without a home has none
        return ""

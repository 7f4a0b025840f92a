"""A virtual cluster on this machine: what the commands of `gpuadmin lab` do."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from gpuadmin.common.text import counted
from gpuadmin.config.load import Site, load_site
from gpuadmin.console import echo, echo_document
from gpuadmin.lab import cluster, commands, hosts, releases, report, seed, snapshots, state, twin, twin_state
from gpuadmin.lab import ssh as lab_ssh
from gpuadmin.lab.paths import state_directory
from gpuadmin.lab.progress import Progress
from gpuadmin.lab.state import Lab
from gpuadmin.report import local_document


def up(
    name: str,
    *,
    nodes: int,
    ordinary: int,
    memory: int,
    firmware: Literal["bios", "uefi"] | None,
    light: bool | None,
    gpus: int | None,
    site: Path | None,
    as_json: bool,
    like: Path | None = None,
    release: Sequence[str] = (),
    seen: Path | None = None,
) -> int:
    """Bring a lab up and write its site: `site`, where it was before, or ./lab-site. Returns the exit code.

    `like`: the site whose twin it becomes, in place of `nodes`, `ordinary` and `gpus`; `seen`: what adopt saw of it.
    `release`: `N` or `HOST=N`.
    """
    asked = releases.parse(release)
    known = state.load(name)
    like = like or (Path(known.like) if known and known.like else None)
    real = None if like is None else load_site(str(like))
    directory = site or (
        Path(known.site) if known and known.site else Path("lab-site" if real is None else "twin-site")
    )
    if real is not None:
        light, gpus = True, twin.count_gpus(real)
    lab = cluster.up(
        name,
        wanted=hosts.wanted_hosts(nodes, ordinary) if real is None else _twins(name, real, seen),
        twin_of=real,
        seen=seen,
        memory_mib=memory,
        firmware=firmware,
        light=light,
        gpus=gpus,
        site_directory=directory.absolute(),
        progress=Progress(),
        releases=asked,
    )
    count = counted(len(lab.hosts), "host is", "hosts are")
    summary = f"{count} up. The site is {directory}: try  gpuadmin check --site {shlex.quote(str(directory))}"
    return _done("up", report.facts(name) if as_json else {}, summary, as_json=as_json)


def _twins(name: str, real: Site, seen: Path | None) -> list[state.Wanted]:
    found = twin_state.of(state_directory() / name, seen, new=state.load(name) is None)
    return twin.wanted_hosts(real, found.without_images, found.releases) if found else twin.wanted_hosts(real)


def up_twin(name: str, real: Site) -> Lab:
    """Bring a site's twin up; its own site is in the lab's directory."""
    return cluster.up(
        name,
        wanted=_twins(name, real, None),
        twin_of=real,
        memory_mib=1024,
        firmware=None,
        light=True,
        gpus=twin.count_gpus(real),
        site_directory=twin_site(name),
        progress=Progress(),
    )


def twin_site(name: str) -> Path:
    """Where the site of a twin is that nobody chose a place for."""
    return state_directory() / name / "site"


def here() -> str:
    """The name of the lab to use if none is given: the one whose site this is, else `default`."""
    return state.lab_here()


def status(name: str, *, as_json: bool) -> int:
    """Show a lab's hosts, whether they run, and its snapshots. Returns the exit code."""
    facts = report.facts(name)
    if as_json:
        echo_document(report.as_json(facts))
    else:
        echo(report.as_text(facts))
    return 0


def ssh(name: str, host: str, remote: Sequence[str], *, login: str | None, identity: Path | None) -> int:
    """Become an ssh to a host of the lab, with a command or without. Does not return."""
    commands.require("ssh")
    lab = state.existing(name)
    line = lab_ssh.ssh_command(lab, lab.host(host), remote, login=login or seed.ADMIN, identity=identity)
    os.execvp(line[0], line)


def power_cut(name: str, host: str, *, as_json: bool) -> int:
    """Cut a host's power. Returns the exit code."""
    cut = cluster.power_cut(name, host)
    summary = f"{host}: power cut" if cut else f"{host} was off already"
    return _done("power-cut", {"host": host, "cut": cut}, summary, as_json=as_json)


def start(name: str, host: str, *, as_json: bool) -> int:
    """Start a host, and wait until it answers. Returns the exit code."""
    cluster.start(name, host, Progress())
    return _done("start", {"host": host}, f"{host} is up", as_json=as_json)


def save(name: str, snapshot: str, *, replace: bool, as_json: bool) -> int:
    """Save all hosts as they run now. Returns the exit code."""
    snapshots.save(name, snapshot, Progress(), replace=replace)
    return _done("save", {"snapshot": snapshot}, f"saved {snapshot}", as_json=as_json)


def restore(name: str, snapshot: str, *, as_json: bool) -> int:
    """Bring all hosts back to a saved moment. Returns the exit code."""
    snapshots.restore(name, snapshot, Progress())
    return _done("restore", {"snapshot": snapshot}, f"restored {snapshot}", as_json=as_json)


def down(name: str, *, purge: bool, as_json: bool) -> int:
    """Shut a lab down; with `purge` delete all that is its own. Returns the exit code."""
    cluster.down(name, purge=purge, progress=Progress())
    summary = f"lab {name} is {'gone' if purge else 'down'}"
    return _done("down", {"lab": name, "purged": purge}, summary, as_json=as_json)


def logs(name: str, host: str, *, follow: bool) -> int:
    """Show a host's serial console. Returns the exit code."""
    for text in report.console(name, host, follow=follow):
        echo(text, end=False)
    return 0


def _done(command: str, result: Any, summary: str, *, as_json: bool) -> int:
    if as_json:
        echo_document(local_document(f"lab {command}", result))
    else:
        echo(summary)
    return 0

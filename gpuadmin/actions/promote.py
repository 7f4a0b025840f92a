"""Have a host of second copies serve the homes: look, decide, plan, confirm; copies into place; then provision."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from gpuadmin.actions.provision import gather
from gpuadmin.actions.shared.metrics import keep_secret
from gpuadmin.announcements import Announcements, compose
from gpuadmin.answers import Answers
from gpuadmin.common.text import listed, the_page
from gpuadmin.config.hosts_file import HOSTS_FILE, with_host_moved
from gpuadmin.config.inventory import Host, load_inventory
from gpuadmin.config.load import load_site
from gpuadmin.config.yamlfile import YamlFile, write_atomically
from gpuadmin.desired.cluster import Cluster
from gpuadmin.errors import ConfigError, RefusedError
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.promotion import (
    NOTICE,
    READ_ONLY,
    WRITES,
    Choice,
    choose,
    find_end,
    find_left,
    find_refusal,
    find_uids,
    local_time,
)
from gpuadmin.results import RunResult
from gpuadmin.session import Session, opened
from gpuadmin.who import who

_DAYS = 14  # for which people read of it at login


def promote(options: Options, name: str, *, read_only: bool) -> int:
    """Serve the homes from the host of that name. Returns the exit code."""
    with opened("promote", options) as session:
        host, old = _find(session, name)
        goes_on = "storage" in host.groups  # an earlier run has come as far as the inventory, or people only read
        copies, serves = _look(session, host, old)
        if reason := find_refusal(host, old, copies, serves):
            raise RefusedError(reason, hint=f"see {the_page('promote')}")
        late = any(one["mounts"] for node, one in serves.known.items() if node != name)
        choice = _choose(session, host, old, copies) if late or not goes_on else Choice()
        file = _edit(session, host, old, read_only=read_only)
        _plan(session, host, old, serves, choice, read_only=read_only)
        order = {"former": old.name, "homes": dict(choice.homes)}
        request = {"gpuadmin_promote": order, "gpuadmin_promote_tasks": "promote"}
        held = {node: one.get("held", {}) for node, one in serves.known.items()}
        result = {**order, "without": dict(choice.without), "newer": dict(choice.newer), "held": held}
        makes = [] if goes_on else [name]  # homes that are served are not made again
        session.predict("promote", makes, request)
        session.confirm()  # guard: homes are served from elsewhere once that is confirmed
        run = session.run("promote", makes, request, check=session.check)
        # guard: the inventory names a host that has its homes
        if session.check or run.code:
            return report(session, run, result)
        file = _edit(session, host, old, read_only=read_only)  # guard: what was written there meanwhile stays -> file
        if file is not None:
            write_atomically(file.path, file.text)
        session.site = load_site(str(session.site.directory))
        if choice.homes:
            run = run.then(_announce(session, choice, [one for one in serves.known if one != name]))
        wrote = host.variables.get("homes_read_only") is True and not read_only
        message = [text.format(time=local_time(choice.newest)) for text in NOTICE.values() if choice.homes]
        message += [READ_ONLY] if read_only else [WRITES] if wrote else []
        secret, secrets, asked = gather(session)
        if secrets:
            keep_secret(session.site, secret)
        absent = "" if old.name in copies.known else old.name
        asked |= _describe_former(session, old, "\n".join(message), absent)
        hosts = [one.name for one in session.hosts if one.name != absent]
        run = run if run.interrupted else run.then(session.run("provision", hosts, asked, check=False))
        return report(session, run, result, advice="run it again: it goes on from where it is")


def _find(session: Session, name: str) -> tuple[Host, Host]:
    """Return the host that is to serve, and the one that serves until now. Raises ConfigError."""
    site, wanted = session.site, session.site.settings.homes.server
    (host,) = site.inventory.named([name])
    group = "backup" if "storage" in host.groups else "storage"
    old = [one for one in site.inventory.group(group) if one != host]
    if len(old) != 1 or not host.serves or wanted not in (None, name):
        need = "it must be in the group backup, one other host in storage, and homes.server (gpuadmin.yml) name none"
        raise ConfigError(f"{name} cannot be promoted: {need}", hint=f"see {the_page('promote')}")
    # guard: a host that serves by itself, and was not promoted, changes no places of copies
    if "storage" in host.groups and not all("backups_directory" in one.variables for one in (host, *old)):
        raise ConfigError(f"{name} serves the homes already", hint=f"the host to promote is {old[0].name}")
    return host, old[0]


def _describe_former(session: Session, old: Host, message: str = "", absent: str = "") -> dict[str, Any]:
    """What hosts are told of the one that serves no more. `absent`: its name, if it does not answer."""
    above = Cluster(session.site.settings, session.site.inventory.hosts).beside_homes
    former = {"server": old.cluster_address, "above": str(above), "message": message, "absent": absent}
    return {"gpuadmin_former": former}


def _look(session: Session, host: Host, old: Host) -> tuple[Answers, Answers]:
    """What hosts say of copies, and of what they have of the old one's."""
    nodes = [one for one in session.named("gpu") if one not in (host.name, old.name)]
    request = {"gpuadmin_promote_tasks": "look", **_describe_former(session, old)}
    found = session.look("promote", [host.name, old.name, *nodes], request).hosts
    copies = Answers.of(found, [host.name, old.name], "facts")
    return copies, Answers.of(found, [host.name, *nodes], "former_homes")


def _choose(session: Session, host: Host, old: Host, copies: Answers) -> Choice:
    site = session.site
    mine, theirs = (copies.known.get(one.name, {}).get("backups", ()) for one in (host, old))
    gone = [one.name for one in site.registry.registry.retired]
    found = choose(mine, find_uids(site), gone, theirs, find_end(datetime.now(UTC)))
    if not found.homes:
        raise ConfigError(f"{host.name} has no copy of any home", hint="gpuadmin list-backups shows what there is")
    return found


def _edit(session: Session, host: Host, old: Host, *, read_only: bool) -> YamlFile | None:
    """The site's hosts as they will be; None: as they are. Raises ConfigError where they cannot be edited."""
    site = session.site
    cluster = Cluster(site.settings, site.inventory.hosts)
    file = YamlFile.load(site.directory / HOSTS_FILE, name=HOSTS_FILE)
    # the copies are its backups from now on; copies come to a place on the file system of the old one's homes
    mine = {"backups_directory": cluster.backups(host), "homes_read_only": read_only or None}
    theirs = {"backups_directory": str(old.variables.get("backups_directory") or cluster.beside_homes / "copies")}
    edited = with_host_moved(file, host.name, "backup", "storage", mine)
    edited = with_host_moved(edited, old.name, "storage", "backup", theirs)
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(site.inventory.directory, Path(place) / "inventory", symlinks=True)
        (Path(place) / HOSTS_FILE).write_text(edited.text, encoding="utf-8")
        groups = {one.name: {*one.groups} & {"storage", "backup"} for one in load_inventory(Path(place)).hosts}
    # guard: an inventory that would name two storage hosts is not written
    if (groups[host.name], groups[old.name]) != ({"storage"}, {"backup"}):
        words = f"with {HOSTS_FILE} changed, {host.name} is not in storage alone, or {old.name} not in backup alone"
        raise ConfigError(f"inventory/: {words}", hint="move them by hand, where their groups are; then run this again")
    return None if edited.data == file.data else edited


def _plan(session: Session, host: Host, old: Host, serves: Answers, choice: Choice, *, read_only: bool) -> None:
    name = host.name
    builder = PlanBuilder(f"Serve the homes of {session.site.settings.name} from {name}, not from {old.name}")
    builder.add_all([name], [*choice.lines(), f"serve them: people can {'read' if read_only else 'read and write'}"])
    builder.add("site", f"{HOSTS_FILE}: {name} is in storage, {old.name} in backup")
    for node, found in serves.known.items():
        if node != name:
            builder.add(node, "mounts them from there without a reboot; people are told")
        for person, ones in found.get("held", {}).items():
            builder.warn(f"{node}: {person} has files open by {listed(ones)}: programs get errors, or hang")
    for person, why in sorted(choice.without.items()):
        builder.warn(f"{person} begins with an empty home: {why}")
    for person, backup in sorted(choice.newer.items()):
        builder.warn(f"{person}: {old.name} has a newer backup, {backup}, of which {name} has no copy")
    for node, why in serves.unknown.items():
        builder.warn(f"{node} does not mount again ({why}): gpuadmin provision when it answers")
    for left in find_left(session.site.settings, old) if choice.homes else ():
        builder.warn(left)
    if old.variables.get("bmc") is not None:
        builder.warn(f"gpuadmin power off {old.name} makes sure that it stays off")
    builder.warn(f"when {old.name} is back: gpuadmin provision makes it the host of the second copies")
    session.plan(builder.build())


def _announce(session: Session, choice: Choice, nodes: Sequence[str]) -> RunResult:
    """Have people read of it when they log in."""
    site, today, record = session.site, date.today(), Announcements.of(session.site.directory)
    texts = {one: text.format(time=local_time(choice.newest)) for one, text in NOTICE.items()}
    announcement = record.kept(compose(texts, [*texts], None, today + timedelta(days=_DAYS), nodes, today))
    record.add(announcement, who())
    entries = record.entries(nodes, site.settings.name, today, more=[announcement])
    run = session.run("announce", nodes, {"gpuadmin_announcements": entries}, check=False, quiet=True)
    record.add_reached([name for name, found in run.hosts.items() if not found.bad], who())
    return run

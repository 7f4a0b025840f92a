"""From hosts that people work on to a site, and a report of what does not fit. Hosts are only looked at."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from gpuadmin.actions.bootstrap import Entrance
from gpuadmin.answers import Answers
from gpuadmin.common.text import counted, listed
from gpuadmin.config.adopted import DOCUMENT, read_adoption
from gpuadmin.config.find import SETTINGS_FILE, find_site
from gpuadmin.config.hosts_file import SiteHost
from gpuadmin.config.inventory import KEY
from gpuadmin.config.known_hosts import read_known_hosts
from gpuadmin.config.load import Site, load_site
from gpuadmin.config.private_key import key_problem
from gpuadmin.console import echo
from gpuadmin.display import make_table, show_hosts, show_table, styled
from gpuadmin.errors import ConfigError
from gpuadmin.lock import site_lock
from gpuadmin.options import Options
from gpuadmin.outcome import finish
from gpuadmin.plan import PlanBuilder
from gpuadmin.reading import expanded
from gpuadmin.results import UNRESOLVED
from gpuadmin.session import Session
from gpuadmin.takeover.actions.shared.adopted_site import News, news, write_new, write_news, write_report
from gpuadmin.takeover.actions.shared.outside import Asked, ask, named, outside
from gpuadmin.takeover.adoption.conflict import LEVELS, Conflict
from gpuadmin.takeover.adoption.earlier import NOTHING, read_earlier
from gpuadmin.takeover.adoption.page import known, next_commands, uid_sentence
from gpuadmin.takeover.adoption.proposal import ADMIN, Proposal, propose
from gpuadmin.takeover.adoption.seen import Host

_REACHED = ("ansible_host", "ansible_port", KEY, "gpuadmin_address")
_COLOURS = {"stops": "red", "decide": "yellow", "note": "dim"}


def adopt(options: Options, words: Sequence[str], *, login: str | None, identity: Path | None, name: str | None) -> int:
    """Look at hosts by their names, or at all of a site. `login`: whom one can log in as. Returns the exit code."""
    _refuse_login(login, identity)
    directory, site = _target(options)
    hosts = _hosts(words, site)
    login = login or ("root" if site is None else site.settings.admin.user)
    with ExitStack() as stack:
        if site is not None and not options.check:
            stack.enter_context(site_lock(site.runs, "adopt"))
        session = stack.enter_context(
            outside(
                "adopt",
                options,
                hosts,
                admin=ADMIN if site is None else site.settings.admin.user,
                ssh_key=None if site is None else site.settings.admin.ssh_key,
                known_hosts="" if site is None else read_known_hosts(site.known_hosts),
                site=directory,
            )
        )
        asked = ask(session, "adopt", Entrance(login, identity))
        answers = Answers.of(asked.run.hosts, [host.name for host in hosts], "adoption")
        if not answers.known:
            show_hosts(session.console, asked.run.hosts, check=True)
            echo("No host could be looked at; nothing was written.", err=True)
            _say_how_to_name(answers, words, site)
            return finish(session, answers.code or asked.run.code, {"silent": dict(answers.unknown)}, asked.run)
        document = read_adoption(directory)
        wanted = None if words else [host.name for host in hosts]
        proposal = propose(
            name or (directory.name if site is None else site.settings.name),
            _seen(hosts, answers, asked),
            login=login,
            ssh_key=_key(identity),
            silent=answers.unknown,
            site=site,
            earlier=NOTHING if site is None else read_earlier(document, list(answers.known), wanted),
        )
        return _write(session, directory, site, proposal, answers, document, words)


def _refuse_login(login: str | None, identity: Path | None) -> None:
    """Raises ConfigError for options that can log in nowhere. Asks no host."""
    if login is not None and (not login.isprintable() or not re.fullmatch(r"[^-\s][^\s]*", login)):
        raise ConfigError(
            f"--admin: {login!r} is not the name of an account", hint="name the account that you log in as now"
        )
    problem = None if identity is None else key_problem(str(identity))
    if problem is not None and problem.sure:
        raise ConfigError(f"--identity: {problem.key} {problem.message}", hint=problem.hint)


def _target(options: Options) -> tuple[Path, Site | None]:
    """The site's directory, and the site that is there; None for a new one, which has to be named."""
    given = options.site or os.environ.get("GPUADMIN_SITE")
    if given and not os.path.lexists(expanded(given) / SETTINGS_FILE):
        return expanded(given).absolute(), None
    try:
        directory = find_site(options.site)
    except ConfigError as error:
        raise ConfigError(
            error.message, hint="--site DIR names the directory of the site that is to be written"
        ) from None
    return directory, load_site(str(directory))


def _hosts(words: Sequence[str], site: Site | None) -> list[SiteHost]:
    """The hosts that are asked: those named, as the site reaches them where it has them; or all of the site's."""
    known_hosts = {} if site is None else {host.name: host for host in site.inventory.hosts}
    found = named(words)
    if not found:
        if not known_hosts:
            raise ConfigError("no host is named", hint="gpuadmin adopt HOST… --site DIR")
        found = [SiteHost(name, ()) for name in known_hosts]
    return [
        SiteHost(
            host.name,
            host.groups,
            {
                key: value
                for key, value in known_hosts[host.name].variables.items()
                if key in _REACHED and "{{" not in str(value)
            }
            if host.name in known_hosts and not host.variables
            else host.variables,
        )
        for host in found
    ]


def _key(identity: Path | None) -> str | None:
    """The private key that was logged in with, for the site; bootstrap needs its public one."""
    if identity is None or not Path(f"{expanded(identity)}.pub").exists():
        return None
    return str(expanded(identity).absolute())


def _seen(hosts: Sequence[SiteHost], answers: Answers, asked: Asked) -> list[Host]:
    return [
        Host(host.name, answers.known[host.name], host.variables, asked.without_root.get(host.name))
        for host in hosts
        if host.name in answers.known
    ]


def _write(
    session: Session,
    directory: Path,
    site: Site | None,
    proposal: Proposal,
    answers: Answers,
    document: Mapping[str, Any],
    words: Sequence[str],
) -> int:
    """Show what was found, ask where a site that people have edited becomes another, and write."""
    earlier = known(document)
    fresh = [one for one in proposal.conflicts if one.key not in earlier]
    settled = (
        len(earlier.keys() - {one.key for one in proposal.conflicts}) if not answers.unknown and site is not None else 0
    )
    new = news(proposal, site)
    _show(session, proposal, fresh if earlier else list(proposal.conflicts), site)
    written: list[str] = []
    unsettled = known({"conflicts": [one.document() for one in proposal.conflicts]})
    if site is None or new or unsettled != earlier or document.get("uids") != uid_sentence(proposal):
        if site is not None and new:
            session.plan(_plan(site, new))
            session.confirm()
        if not session.check:
            pinned = read_known_hosts(session.site.known_hosts)
            written = write_new(directory, proposal, pinned) if site is None else write_news(site, new, pinned)
            written += write_report(directory, proposal, datetime.now().astimezone())
            session.console.print(f"Wrote {directory}: {', '.join(written)}")
            if site is None:
                session.console.print(f"Next, in {directory}:")
                session.console.print("  read adoption.md; correct what was guessed")
                for command in next_commands(proposal):
                    session.console.print(f"  {command}")
    if site is not None and not (new or fresh):
        gone = f"; {counted(settled, 'conflict is', 'conflicts are')} settled." if settled else "."
        session.console.print(f"Nothing new{gone}")
    for host, why in answers.unknown.items():
        echo(f"{host}: was not looked at: {why}", err=True)
    _say_how_to_name(answers, words, site)
    return finish(session, answers.code, _result(proposal, new, fresh, settled, written), None)


def _say_how_to_name(answers: Answers, words: Sequence[str], site: Site | None) -> None:
    """Hosts that were not looked at, as they were typed (`words`): nothing else has their addresses. A new site has no
    inventory yet, in which a host that is not found by its name could be given one.
    """
    lost = [host for host, why in answers.unknown.items() if UNRESOLVED in why]
    site_hosts = {host.name for host in site.inventory.hosts} if site else set()
    again = [word for word in words if (name := named([word])[0].name) in answers.unknown and name not in site_hosts]
    if again and not lost:
        echo(f"Hint: when that is settled: gpuadmin adopt {' '.join(again)} …", err=True)
    if lost and site is None:
        echo(f"Hint: here, name the address: gpuadmin adopt {' '.join(f'{host}=ADDRESS' for host in lost)} …", err=True)


def _plan(site: Site, new: News) -> Any:
    builder = PlanBuilder(f"Add what is new to {site.directory}")
    builder.add_all(["site"], [f"host {host.name} ({', '.join(host.groups)})" for host in new.hosts])
    builder.add_all(["site"], [f"person {user.name} (uid {user.uid})" for user in new.users])
    return builder.build()


def _show(session: Session, proposal: Proposal, conflicts: Sequence[Conflict], site: Site | None) -> None:
    """What an admin sees: the hosts and why, uids first, then the conflicts by their kind; adoption.md has all."""
    if session.options.json:
        return
    console = session.console
    table = make_table("host", "groups", "system", "GPUs", "people", "why", right=("GPUs", "people"), fold=True)
    for host in proposal.hosts:
        system = host.part("system")
        grouped = proposal.groups[host.name]
        table.add_row(
            host.name,
            ", ".join(grouped.groups) or "none",
            "not known" if system is None else system["name"],
            str(host.has_gpus),
            str(len(host.people)),
            "; ".join(grouped.why),
        )
    if site is None:
        show_table(console, table)
        console.print(uid_sentence(proposal).replace("`", ""))
    for level, title in LEVELS.items():
        ones = [one for one in conflicts if one.level == level]
        if ones:
            console.print(styled((f"{title.replace('`', '')} ({len(ones)})", _COLOURS[level])))
        for words in _kinds(ones):
            console.print(f"  {words}")


def _kinds(found: Sequence[Conflict]) -> list[str]:
    """A line for each kind of conflict: of one its words, of several whom they are about."""
    kinds: dict[str, list[Conflict]] = {}
    for one in found:
        kinds.setdefault(one.kind, []).append(one)
    lines = []
    for kind, ones in sorted(kinds.items()):
        if len(ones) == 1:
            where = f"{listed(ones[0].hosts, 5)}: " if ones[0].hosts else ""
            lines.append(f"{kind}: {where}{ones[0].words}")
        else:
            people = list(dict.fromkeys(name for one in ones for name in one.people))
            hosts = list(dict.fromkeys(host for one in ones for host in one.hosts))
            whom = f": {listed(people, 8)}" if people else ""
            lines.append(f"{kind}: {len(ones)}{f' on {listed(hosts, 5)}' if hosts else ''}{whom}")
    return lines


def _result(
    proposal: Proposal, new: News, fresh: Sequence[Conflict], settled: int, written: Sequence[str]
) -> Mapping[str, Any]:
    return {
        "written": list(written),
        "report": DOCUMENT,
        "hosts": {name: {"groups": list(one.groups), "why": list(one.why)} for name, one in proposal.groups.items()},
        "new": {
            "hosts": [host.name for host in new.hosts],
            "people": [user.name for user in new.users],
            "conflicts": [one.document() for one in fresh],
        },
        "settled": settled,
        "conflicts": [one.document() for one in proposal.conflicts],
        "silent": dict(proposal.silent),
    }

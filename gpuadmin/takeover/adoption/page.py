"""adoption.md and adoption.json: what was found, what fits, and each conflict with its remedies."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from gpuadmin.common.text import counted, listed
from gpuadmin.config.adopted import FORMAT
from gpuadmin.pages.render import escaped
from gpuadmin.takeover.adoption.conflict import KEY, LEFT_OUT, LEVELS, NO_ADMIN, Conflict, word
from gpuadmin.takeover.adoption.kept import kept
from gpuadmin.takeover.adoption.proposal import Proposal
from gpuadmin.text import one_line

PAGE = "adoption.md"
_NOT_READ = (
    "Password hashes and private keys: none was read. Who has an account on one host and gets one on another logs in"
    " there by key until they have set a password.",
    "How large homes, images and volumes are: nothing was walked.",
    "Whether a rule of sudo's is meant: each is shown as it is.",
)


def uid_sentence(proposal: Proposal) -> str:
    """What an admin wants to know first: whether uids can stay as they are."""
    accounts = proposal.chosen.accounts
    persons = proposal.users
    unseen = escaped(listed(proposal.unseen))
    span = f"`accounts: {{uid_first: {accounts.uid_first}, uid_last: {accounts.uid_last}}}`"
    agree = [user for user in persons if set(proposal.uids(user.name).values()) == {user.uid}]
    of = counted(len(persons), "person", "people")
    if not persons:
        return "Nobody has an account on these hosts yet." + (f" {unseen}: not looked at." if unseen else "")
    if len(agree) == len(persons) and unseen:  # guard: of a host that was not looked at nobody says that it agrees
        return (
            f"The hosts that were looked at agree on the uids of all {of} ({span}). {unseen}: not looked at, so whether"
            " all can stay as they are is not known yet."
        )
    if len(agree) == len(persons):
        return (
            f"All hosts agree on the uids of all {of}: they stay as they are ({span}), and no file has to change its"
            " owner."
        )
    return (
        f"Hosts agree on the uids of {len(agree)} of {of}. Keeping them"
        f" costs least ({span}): only the other {len(persons) - len(agree)} get another uid, on the hosts that differ."
    ) + (f" {unseen}: not looked at." if unseen else "")


def page(proposal: Proposal, when: datetime) -> str:
    """adoption.md. Everything in it that hosts said is escaped."""
    return "\n".join(_lines(proposal, when)).rstrip("\n") + "\n"


def _lines(proposal: Proposal, when: datetime) -> Iterator[str]:
    hosts = len(proposal.hosts)
    yield f"# {escaped(proposal.name)} as it is"
    yield ""
    yield (
        f"`gpuadmin adopt` looked at {counted(hosts, 'host')} on {when:%Y-%m-%d %H:%M} and changed nothing there."
        " If the next run finds something new it writes another report; if you have edited this page, that goes into a"
        " file beside it."
        + (
            f" Of {escaped(listed(list(proposal.earlier.hosts)))} it has what an earlier look found."
            if proposal.earlier.hosts
            else ""
        )
    )
    yield ""
    yield f"- {uid_sentence(proposal)}"
    users = proposal.users
    refused = [one.name for one in proposal.people.persons.values() if one.user is None]
    out = sorted({*refused, *(name for one in proposal.conflicts if one.kind == LEFT_OUT for name in one.people)})
    yield f"- users.yml has {counted(len(users), 'person', 'people')}" + (
        f"; {counted(len(out), 'person is', 'people are')} left out: {escaped(listed(out))}." if out else "."
    )
    for level, title in LEVELS.items():
        count = sum(one.level == level for one in proposal.conflicts)
        yield f"- {title}: {count}."
    yield from _hosts(proposal)
    for level, title in LEVELS.items():
        yield from _conflicts(title, [one for one in proposal.conflicts if one.level == level])
    yield from _people(proposal)
    yield from ("", "## What was not looked at", "")
    yield from (f"- {one}" for one in _NOT_READ)
    yield from ("", "## Next", "", "```")
    yield from _next(proposal)
    yield "```"


def next_commands(proposal: Proposal) -> Mapping[str, str]:
    """What an admin types next, in this order, and what each is for."""
    bootstrap = [line for one in proposal.conflicts if one.kind == NO_ADMIN for line in one.remedies]
    lines = [line for one in proposal.conflicts for line in one.remedies]
    first = []
    if proposal.homes.server and any(line.startswith(("gpuadmin renumber", "gpuadmin move-homes")) for line in lines):
        first = [f"gpuadmin provision --limit {word(proposal.homes.server)}"]
    return {
        "gpuadmin check": "the files that were written, as you have corrected them",
        **dict.fromkeys(bootstrap, "the account that gpuadmin logs in as"),
        "gpuadmin provision --check": "what is in the way, on all hosts, and what would change",
        **dict.fromkeys(first, "before renumber and move-homes, which go by the accounts there"),
    }


def _next(proposal: Proposal) -> Iterator[str]:
    again = {"gpuadmin adopt": "again: what is new since, and what has been settled"}
    for command, words in {**next_commands(proposal), **again}.items():
        yield f"{one_line(command):<36} # {words}"


def _hosts(proposal: Proposal) -> Iterator[str]:
    yield from (
        "",
        "## Hosts",
        "",
        "| host | groups | why | system | GPUs | people |",
        "| --- | --- | --- | --- | --- | --- |",
    )
    for host in proposal.hosts:
        grouped = proposal.groups[host.name]
        system = host.part("system")
        cells = (
            host.name,
            ", ".join(grouped.groups) or "none",
            "; ".join(grouped.why),
            "not known" if system is None else f"{system['name']}, Linux {system['kernel']}",
            str(host.has_gpus),
            str(len(host.people)),
        )
        yield f"| {' | '.join(escaped(cell) for cell in cells)} |"
    for name, one in proposal.earlier.hosts.items():
        kind = "not known" if one["system"] is None else f"{one['system'].get('name')}"
        row = (name, ", ".join(one["groups"]) or "none", "; ".join(one["why"]), kind, str(one["gpus"]),
               str(len(one["people"])))  # fmt: skip
        yield f"| {' | '.join(escaped(cell) for cell in row)} |"
    for name, why in proposal.silent.items():
        if name in proposal.earlier.hosts:
            continue
        yield f"| {escaped(name)} | none | {escaped(why)} | not known | | |"


def _conflicts(title: str, found: Sequence[Conflict]) -> Iterator[str]:
    if not found:
        return
    yield from ("", f"## {title}")
    kind = None
    for one in sorted(found, key=lambda one: one.kind):
        if one.kind != kind:
            kind = one.kind
            yield from ("", f"### {kind[0].upper()}{kind[1:]}")
        day = f" (looked at on {escaped(one.looked)})" if one.looked else ""
        where = f"**{escaped(', '.join(one.hosts))}**{day}: " if one.hosts else ""
        yield from ("", f"{where}{escaped(one.words)}")
        if one.remedies:
            # no line of these begins with what a host said, so none of them ends the fence
            yield from ("", "```", *(one_line(line) for line in one.remedies), "```")


def _people(proposal: Proposal) -> Iterator[str]:
    if not proposal.users:
        return
    yield from ("", "## People", "", "| name | uid | keys | until | Docker | e-mail | hosts |")
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    asked: Counter[str] = Counter()
    for one in proposal.conflicts:
        if one.kind == KEY:
            asked[one.people[0]] += len(one.remedies) - 1  # the first line asks, and each other one adds a key
    count = len(proposal.hosts) + len(proposal.earlier.hosts)
    for user in proposal.users:
        hosts = sorted(proposal.uids(user.name))
        undecided = f", and {asked[user.name]} to be decided" if asked[user.name] else ""
        cells = (
            user.name, str(user.uid), f"{len(user.keys)}{undecided}",
            str(user.expires or ""), "yes" if user.docker else "no",
            user.email or "", "all" if len(hosts) == count > 1 else ", ".join(hosts),
        )  # fmt: skip
        yield f"| {' | '.join(escaped(cell) for cell in cells)} |"


def document(proposal: Proposal, when: datetime, page_text: str) -> dict[str, Any]:
    """adoption.json: the same for programs, and for the next run, which says what is new."""
    names = {*proposal.earlier.uids, *proposal.people.persons}
    chosen = {user.name: user.uid for user in proposal.users}
    return {
        "format": FORMAT,
        "when": when.isoformat(timespec="seconds"),
        "page": hashlib.sha256(page_text.encode()).hexdigest(),
        "uids": uid_sentence(proposal),
        "hosts": dict(proposal.earlier.hosts)
        | {
            host.name: {
                "groups": list(proposal.groups[host.name].groups),
                "why": list(proposal.groups[host.name].why),
                "system": host.part("system"),
                "gpus": host.has_gpus,
                "people": sorted(host.people),
                "without_root": host.without_root,
                "file_systems": host.listed("file_systems"),
                "exports": host.listed("exports"),
                "docker": host.part("docker"),
                "unknown": host.part("unknown"),
                "seen": kept(host),
            }
            for host in proposal.hosts
        },
        "silent": dict(proposal.silent),
        "people": {name: {"uid": chosen.get(name), "hosts": proposal.uids(name)} for name in sorted(names)},
        "conflicts": [one.document() for one in proposal.conflicts],
    }


def known(before: Mapping[str, Any]) -> dict[tuple[str, str], set[str]]:
    """Given an adoption.json, return the hosts of each conflict, by its key; what is damaged counts as new again."""
    found: dict[tuple[str, str], set[str]] = {}
    conflicts = before.get("conflicts")
    for one in conflicts if isinstance(conflicts, list) else ():
        if isinstance(one, Mapping):
            hosts = one.get("hosts")
            key = (str(one.get("kind")), str(one.get("words")))
            found.setdefault(key, set()).update(map(str, hosts) if isinstance(hosts, list) else ())
    return found

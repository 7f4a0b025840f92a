"""Who is on the hosts: one person for each name, with one uid, and what does not agree about them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any

from pydantic import ValidationError

from gpuadmin.config.fields import email, plain_text, ssh_key, user_name
from gpuadmin.config.schema import Settings, User
from gpuadmin.config.schema.base import HIGHEST_HUMAN_UID
from gpuadmin.takeover.adoption.seen import INSTALLERS, Host

_EPOCH = date(1970, 1, 1)
_LONGEST_EXPIRY = 2_000_000  # days: dates do not go further than the year 9999
_MOST_KEYS = 50
#: What a host tells in place of bytes that are no text in any encoding that it knows.
UNREADABLE = "\ufffd"


@dataclass(frozen=True)
class OnHosts:
    """Something that hosts say of somebody, and which of them do."""

    text: str
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class Person:
    """Somebody of that name, on the hosts where they have an account. `uid`: theirs from now on; None: there is none.

    `refused`: why they cannot be in users.yml. `keys`: those that are nobody else's, by what is between kind and
    comment. `addresses`: theirs by GECOS.
    """

    name: str
    accounts: Mapping[str, Mapping[str, Any]]
    uid: int | None = None
    refused: str | None = None
    user: User | None = None
    shared_keys: tuple[str, ...] = ()
    keys: Mapping[str, OnHosts] = field(default_factory=dict)
    addresses: Mapping[str, OnHosts] = field(default_factory=dict)

    @property
    def uids(self) -> dict[str, int]:
        """Host → their uid there."""
        return {host: int(one["uid"]) for host, one in self.accounts.items()}


@dataclass(frozen=True)
class People:
    """Everybody, by name; `aside`: accounts with a uid of people's that are not people, and what they are.

    `everywhere`: the hosts that all have to say it before a key or an address is somebody's on every host.
    """

    persons: Mapping[str, Person] = field(default_factory=dict)
    aside: Mapping[str, str] = field(default_factory=dict)
    everywhere: frozenset[str] = frozenset()

    @property
    def users(self) -> list[User]:
        """Those who can be in users.yml, in the order of their uids."""
        found = [one.user for one in self.persons.values() if one.user is not None]
        return sorted(found, key=lambda user: (user.uid or 0, user.name))


def found_people(
    hosts: Sequence[Host],
    login: str,
    server: str | None,
    registered: Mapping[str, int | None],
    protected: Collection[str] = (),
) -> tuple[dict[str, dict[str, Mapping[str, Any]]], dict[str, int], dict[str, str]]:
    """Given the hosts, return everybody's accounts by name and host, the uid of each, and who is not a person.

    `login`: the account that was logged in with; `registered`: who is in users.yml already, with their uids;
    `protected`: who is no person, as gpuadmin.yml has it.
    """
    accounts: dict[str, dict[str, Mapping[str, Any]]] = {}
    aside: dict[str, str] = {}
    for host in hosts:
        for name, account in host.people.items():
            if name in registered:
                accounts.setdefault(name, {})[host.name] = account
            # guard: what somebody has protected is made no person
            elif name in protected:
                aside[name] = "gpuadmin.yml says so"
            elif name in INSTALLERS or (name == login and account["uid"] == 1000):
                aside[name] = "made by an installer, or for whoever sets the machines up"
            else:
                accounts.setdefault(name, {})[host.name] = account
        for name in host.services:
            aside.setdefault(name, "nobody can log in with it: a service, or somebody who was shut out by their shell")
    for name in aside.keys() & accounts.keys():  # a person on another host
        del aside[name]
    return accounts, chosen_uids(accounts, server, registered), aside


def chosen_uids(
    accounts: Mapping[str, Mapping[str, Mapping[str, Any]]],
    server: str | None,
    registered: Mapping[str, int | None] | None = None,
) -> dict[str, int]:
    """One uid for each name and one name for each uid: what most hosts say, and the host that has the homes before all.

    Who is registered keeps that uid. Somebody whose every uid is another's gets none here.
    """
    taken_uids = {name: uid for name, uid in (registered or {}).items() if uid is not None}
    taken = set(taken_uids.values())
    votes: Counter[tuple[str, int]] = Counter()
    for name, ones in accounts.items():
        for host, account in ones.items():
            votes[name, account["uid"]] += 2 + (host == server)
    found = {name: uid for name, uid in taken_uids.items() if name in accounts}
    for (name, uid), _ in sorted(votes.items(), key=lambda one: (-one[1], one[0])):
        if (
            name not in found
            # guard: no two people get one uid
            and uid not in taken
        ):
            found[name] = uid
            taken.add(uid)
    return found


def new_uids(names: Sequence[str], found: Mapping[str, int], seen: set[int], settings: Settings) -> dict[str, int]:
    """A uid for each of those that have none: above all that anybody has anywhere, as long as there are some."""
    first, last = settings.accounts.uid_first, settings.accounts.uid_last
    inside = [uid for uid in seen | set(found.values()) if first <= uid <= last]
    taken = seen | set(found.values())
    free = (uid for uid in (*range(max(inside, default=first - 1) + 1, last + 1), *range(first, last + 1)))
    given: dict[str, int] = {}
    for name in names:
        uid = next((one for one in free if one not in taken), None)
        if uid is None:
            break
        given[name] = uid
        taken.add(uid)
    return given


def people(
    hosts: Sequence[Host],
    settings: Settings,
    found: tuple[Any, ...],
    docker: set[str] | None,
    registered: Mapping[str, User] | None = None,
    everywhere: Collection[str] | None = None,
) -> People:
    """Everybody with what users.yml says of them. `docker`: who uses Docker now; None: there is none anywhere.

    `registered`: who is in users.yml already, as they are there. `everywhere`: as People has it; None: all hosts.
    """
    wanted = frozenset([host.name for host in hosts] if everywhere is None else everywhere)
    accounts, uids, aside = found
    seen = {one[kind] for host in hosts for one in host.listed("accounts") for kind in ("uid", "gid") if one[kind]}
    seen |= {one["gid"] for host in hosts for one in host.listed("groups") if one["gid"]}
    # guard: whoever adopt gives a uid gets none that somebody's directory has
    seen |= {one["uid"] for host in hosts for root in host.listed("homes") for one in root["entries"] if one["uid"]}
    refused = {
        name: why
        for name in accounts
        if name not in (registered or {}) and (why := _refused(name, uids.get(name), settings)) is not None
    }
    without = [name for name in sorted(accounts) if name not in uids and name not in refused]
    uids = {**uids, **new_uids(without, uids, seen, settings)}
    all_keys = {name: _collect_plain_keys(hosts, name) for name in accounts}
    owners = Counter(blob for keys in all_keys.values() for blob in keys)
    persons = {}
    for name in sorted(accounts):
        person = Person(
            name,
            accounts[name],
            uids.get(name),
            refused.get(name) or (None if name in uids else "no uid is left for them"),
            (registered or {}).get(name),
            tuple(sorted(blob for blob in all_keys[name] if owners[blob] > 1)),
            {blob: key for blob, key in all_keys[name].items() if owners[blob] == 1},
            _find_addresses(accounts[name]),
        )
        if (
            person.user is None  # guard: who is in users.yml stays as they are there
            and person.refused is None
        ):
            person = replace(person, user=_user(person, wanted, None if docker is None else name in docker))
        persons[name] = person
    return People(persons, aside, wanted)


def _refused(name: str, uid: int | None, settings: Settings) -> str | None:
    try:
        user_name(name)
    except ValueError as error:
        return str(error)
    if name in (settings.admin.user, settings.accounts.group):
        return f"'{name}' is the cluster's own admin account or group"
    if uid is not None and not settings.accounts.uid_first <= uid <= settings.accounts.uid_last:
        beyond = f", and gpuadmin knows none above {HIGHEST_HUMAN_UID}" if uid > HIGHEST_HUMAN_UID else ""
        return f"uid {uid} is outside {settings.accounts.uid_first}-{settings.accounts.uid_last}{beyond}"
    return None


def _collect_plain_keys(hosts: Sequence[Host], name: str) -> dict[str, OnHosts]:
    """Somebody's plain public keys on all hosts: the key → its line, and where it is."""
    found: dict[str, OnHosts] = {}
    for host in hosts:
        for line in ((host.part("keys") or {}).get(name) or {"plain": []})["plain"]:
            try:
                blob, text = line.split()[1], ssh_key(line)
            except (ValueError, IndexError):  # a comment with a control character or a template marker
                continue
            _add(found, blob, text, host.name)
    return found


def _find_addresses(accounts: Mapping[str, Mapping[str, Any]]) -> dict[str, OnHosts]:
    found: dict[str, OnHosts] = {}
    for host, account in accounts.items():
        text = address(account["gecos"])
        if text is not None:
            _add(found, text, text, host)
    return found


def _add(found: dict[str, OnHosts], key: str, text: str, host: str) -> None:
    on_hosts = found.get(key, OnHosts(text, ()))
    found[key] = replace(on_hosts, hosts=tuple(dict.fromkeys([*on_hosts.hosts, host])))


def find_agreed(ones: Mapping[str, OnHosts], everywhere: Collection[str]) -> list[str]:
    """What all hosts say: root of one host can write anything about anybody, and users.yml takes it to every host."""
    # guard: what one host says of somebody goes to no other -> [one.text for one in ones.values()]
    return [one.text for one in ones.values() if set(everywhere) <= set(one.hosts)]


def _user(person: Person, everywhere: Collection[str], docker: bool | None) -> User | None:
    gecos = [one["gecos"] for one in person.accounts.values() if one["gecos"]]
    fields: dict[str, Any] = {"name": person.name, "uid": person.uid}
    fields["keys"] = find_agreed(person.keys, everywhere)[:_MOST_KEYS]
    fields["email"] = next(iter(find_agreed(person.addresses, everywhere)), None)
    fields["note"] = next((found for one in gecos if (found := full_name(one, person.name)) is not None), None)
    fields["expires"] = last_day(person)
    if docker is not None:
        fields["docker"] = docker
    try:
        return User.model_validate(fields)
    except ValidationError:  # nothing that is left can be refused, but a host may say anything
        return None


def address(gecos: str) -> str | None:
    """The e-mail address in a GECOS field; None if it has none."""
    for word in re.split(r"[,;<>()\s]+", gecos):
        if "@" in word:
            try:
                return email(word)
            except ValueError:
                continue
    return None


def full_name(gecos: str, name: str) -> str | None:
    """Somebody's full name by a GECOS field, where it is one that a site can hold."""
    first = gecos.split(",", maxsplit=1)[0].strip()
    if not first or "@" in first or first == name or UNREADABLE in first:
        return None
    try:
        return plain_text(first)
    except ValueError:
        return None


def last_days(person: Person) -> dict[str, date | None]:
    """Host → the last day on which their account is valid there: shadow has the first day that is not."""
    found: dict[str, date | None] = {}
    for host, one in person.accounts.items():
        days = one["expires"]
        found[host] = None if days is None or days > _LONGEST_EXPIRY else _EPOCH + timedelta(days=max(days, 1) - 1)
    return found


def last_day(person: Person) -> date | None:
    """The latest of them: who is valid somewhere has a way in now, and an admin decides whether they keep it."""
    days = list(last_days(person).values())
    known = [day for day in days if day is not None]
    return max(known) if known and len(known) == len(days) else None


def docker_users(hosts: Sequence[Host]) -> set[str] | None:
    """Who is in the group docker, or has a daemon of their own that goes on without them; None: no host has Docker."""
    found: set[str] = set()
    docker_found = False
    for host in hosts:
        docker = host.part("docker")
        if docker is not None:
            docker_found = docker_found or docker["program"] or bool(docker["containers"])
            found |= set(docker["lingering"])
        members = host.members("docker")
        docker_found = docker_found or bool(members)
        found |= set(members)
    return found if docker_found else None


def by_uid(accounts: Mapping[str, Person]) -> Iterator[tuple[int, dict[str, list[str]]]]:
    """Each uid that has several names, with the hosts of each name."""
    names: dict[int, dict[str, list[str]]] = {}
    for person in accounts.values():
        for host, uid in person.uids.items():
            names.setdefault(uid, {}).setdefault(person.name, []).append(host)
    for uid, whose in sorted(names.items()):
        if len(whose) > 1:
            yield uid, whose

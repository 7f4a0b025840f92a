"""What does not fit about people: their uids, names, keys, ends and groups on the hosts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from gpuadmin.common.names import ACCOUNT, LOGIN
from gpuadmin.common.text import counted, listed
from gpuadmin.config.fields import key_fingerprint
from gpuadmin.config.schema import Settings
from gpuadmin.config.schema.base import LOWEST_HUMAN_UID
from gpuadmin.takeover.adoption.conflict import KEY, LEFT_OUT, Conflict, Level, on, several, word
from gpuadmin.takeover.adoption.people import UNREADABLE, People, Person, by_uid, last_day, last_days
from gpuadmin.takeover.adoption.seen import INSTALLERS, Host


def find_people_conflicts(hosts: Sequence[Host], people: People, settings: Settings) -> list[Conflict]:
    """Everything about people that an admin has to know, one entry for what is the same of many."""
    return [
        *_find_uids(people),
        *_find_names(people, hosts, settings),
        *_find_groups(people, hosts),
        *_find_taken(people, hosts),
        *_find_closed(people),
        *_find_ends(people),
        *_find_passwords(people),
        *_find_keys(people, hosts),
        *_find_undecided(people, hosts),
        *_find_texts(people),
        *_find_services(people, hosts),
        *_find_shells(people, settings),
    ]


def _find_uids(people: People) -> Iterator[Conflict]:
    """Who has another uid on some host than users.yml says; two who have each other's are one entry."""
    persons = people.persons
    swapped: set[str] = set()
    for _uid, whose in by_uid(persons):
        for one in sorted(whose):
            for other in sorted(whose):
                if one < other and not {one, other} & swapped and _are_swapped(persons[one], persons[other]):
                    swapped |= {one, other}
                    yield _describe_swap(persons[one], persons[other])
    for person in persons.values():
        if person.name in swapped or person.uid is None:
            continue
        differing = [host for host, uid in person.uids.items() if uid != person.uid]
        if differing:
            yield Conflict(
                "uid differs",
                f"{person.name} has {_where(person)}; users.yml says {person.uid}",
                "stops",
                tuple(differing),
                (person.name,),
                (f"gpuadmin renumber {word(person.name)} --check", f"gpuadmin renumber {word(person.name)}"),
            )
    for uid, whose in by_uid(persons):
        names = sorted(whose)
        if set(names) <= swapped:
            continue
        keeps = next((name for name in names if persons[name].uid == uid), None)
        hosts = sorted({host for ones in whose.values() for host in ones})
        rest = [name for name in names if name != keeps]
        words = "; ".join(f"{name} on {', '.join(whose[name])}" for name in names)
        kept = f"users.yml gives it to {keeps}" if keeps else "users.yml gives it to none of them"
        yield Conflict(
            "uid shared",
            f"uid {uid} is several people's: {words}; {kept}",
            "stops",
            tuple(hosts),
            tuple(names),
            tuple(several(rest, "gpuadmin renumber {}")),
        )


def _are_swapped(one: Person, other: Person) -> bool:
    """Whether two people have each other's uid: each on some host what the other has on another."""
    return len(set(one.uids.values()) & set(other.uids.values())) > 1


def _describe_swap(one: Person, other: Person) -> Conflict:
    hosts = {host for person in (one, other) for host, uid in person.uids.items() if uid != person.uid}
    return Conflict(
        "uid swapped",
        f"{one.name} and {other.name} have each other's uids: {one.name} has {_where(one)}, {other.name} has"
        f" {_where(other)}; users.yml says {one.uid} and {other.uid}. On shared homes each reads and writes what is"
        " the other's",
        "stops",
        tuple(sorted(hosts)),
        (one.name, other.name),
        (
            f"gpuadmin renumber {word(one.name)} {word(other.name)} --check",
            f"gpuadmin renumber {word(one.name)} {word(other.name)}        # both in one run: it exchanges them",
        ),
    )


def _where(person: Person) -> str:
    hosts: dict[int, list[str]] = {}
    for host, uid in person.uids.items():
        hosts.setdefault(uid, []).append(host)
    return ", ".join(f"{uid} on {', '.join(names)}" for uid, names in sorted(hosts.items()))


def _find_names(people: People, hosts: Sequence[Host], settings: Settings) -> Iterator[Conflict]:
    for person in people.persons.values():
        if person.refused is not None:
            old = word(person.name)
            remedies = [
                "# a person's: give them another account, or rename this one by hand",
                "# with its group, home, crontab, mail and subordinate ids, which usermod -l leaves as they are",
            ]
            if re.fullmatch(ACCOUNT, person.name) and not re.fullmatch(LOGIN, person.name):
                uids = " or ".join(str(uid) for uid in sorted(set(person.uids.values())))
                remedies = [
                    f"# write NEWNAME, with uid {uids}, into users.yml; then, before provision:",
                    f"gpuadmin renumber --rename {old}=NEWNAME",
                ]
            yield Conflict(
                LEFT_OUT,
                f"{person.name} ({_where(person)}) cannot be in users.yml: {person.refused}",
                "decide",
                tuple(person.accounts),
                (person.name,),
                (*remedies, "# or put the name under `protected` in gpuadmin.yml, where it is a service's"),
            )
    yield from _find_low(hosts, settings)
    yield from _find_aside(people, hosts, settings)


def _find_low(hosts: Sequence[Host], settings: Settings) -> Iterator[Conflict]:
    """People by all but their uid: nobody with a shell and a home is passed over."""
    whose: dict[tuple[str, int, str], list[str]] = {}
    for host in hosts:
        for name, one in host.low.items():
            if name != settings.admin.user:
                whose.setdefault((name, one["uid"], one["home"]), []).append(host.name)
    for (name, uid, home), names in sorted(whose.items()):
        yield Conflict(
            LEFT_OUT,
            f"{name} ({uid} on {', '.join(names)}) has a shell and the home {home}, and cannot be in users.yml: uid"
            f" {uid} is below {LOWEST_HUMAN_UID}, where distributions number services, and gpuadmin touches none there",
            "decide",
            tuple(names),
            (name,),
            ("# a service's: leave it. A person's: they need an account with a uid of people's, and their files",),
        )


def _find_aside(people: People, hosts: Sequence[Host], settings: Settings) -> Iterator[Conflict]:
    homes: dict[str, list[str]] = {}
    for host in hosts:
        for path in host.holders.keys() & host.entries.keys():
            for name in host.holders[path]:
                homes.setdefault(name, []).append(host.name)
    for name, why in sorted(people.aside.items()):
        where = homes.get(name, [])
        kept = "is" if name in settings.protected else "belongs"
        home = f"; it has a home on {listed(where)}" if where else ""
        yield Conflict(
            "account that is no person's",
            f"{name}: {why}{home}. It {kept} under `protected` in gpuadmin.yml, and is not in users.yml",
            # guard: whoever has a home and is no person by their shell is decided on -> "note"
            "decide" if where and name not in INSTALLERS else "note",
            (),
            (name,),
            (
                f"gpuadmin add-user {word(name)} --uid UID        # where it is a person after all, and out of"
                " protected",
            ),
        )


def _find_groups(people: People, hosts: Sequence[Host]) -> Iterator[Conflict]:
    """Who has no group of their own with their uid as its gid."""
    without: dict[str, list[str]] = {}
    other: dict[str, list[str]] = {}
    for host in hosts:
        gids = {group["name"]: group["gid"] for group in host.listed("groups")}
        for person in people.persons.values():
            account = person.accounts.get(host.name)
            if person.user is None or account is None:
                continue
            if gids.get(person.name, account["uid"]) != account["uid"]:
                other.setdefault(person.name, []).append(host.name)
            elif account["gid"] != account["uid"]:
                without.setdefault(person.name, []).append(host.name)
    for name_hosts, names in _group_same(other).items():
        yield Conflict(
            "gid differs",
            f"{listed(names)}: the group of their name has another gid than their uid, and provision refuses it",
            "stops",
            name_hosts,
            tuple(names),
            tuple(f"gpuadmin renumber {' '.join(map(word, names))}{more}" for more in (" --check", "")),
        )
    for name_hosts, names in _group_same(without).items():
        yield Conflict(
            "group differs",
            f"{listed(names)}: the first group is not one of their own with the uid as its gid, which provision makes"
            " and gives them",
            "note",
            name_hosts,
            tuple(names),
        )


def _find_taken(people: People, hosts: Sequence[Host]) -> Iterator[Conflict]:
    """Whose uid is the gid of another group: a person's own group has their uid as its gid."""
    uids = {person.uid: person.name for person in people.persons.values() if person.user is not None}
    names = set(uids.values())
    for host in hosts:
        for group in host.listed("groups"):
            name, account = uids.get(group["gid"]), host.people.get(group["name"])
            registered = group["name"] in names  # renumber gives them the gid that is theirs
            if account is not None and (registered or account["uid"] == group["gid"]):
                continue
            if name is not None and group["name"] != name:
                yield Conflict(
                    "gid taken",
                    f"gid {group['gid']}, which is {name}'s by their uid, is the group {group['name']}'s",
                    "stops",
                    (host.name,),
                    (name,),
                    (on([host.name]), f"groupmod -g GID {word(group['name'])}        # and chgrp what is the group's"),
                )


def _find_closed(people: People) -> Iterator[Conflict]:
    """Whom a verb of gpuadmin keeps out that has not ended; their ends and passwords are told as they were before."""
    for verb in ("renumber", "move-homes"):
        whose = {
            person.name: [host for host, one in person.accounts.items() if one.get("closed") == verb]
            for person in people.persons.values()
        }
        for hosts, names in _group_same({name: ones for name, ones in whose.items() if ones}).items():
            yield Conflict(
                "kept out",
                f"{listed(names)}: gpuadmin {verb} has closed their accounts and has not ended",
                "stops",
                hosts,
                tuple(names),
                (f"gpuadmin {verb}        # in the clone of the site where it began: it goes on, and lets them in",),
            )


def _find_ends(people: People) -> Iterator[Conflict]:
    over: dict[str, list[str]] = {}
    for person in people.persons.values():
        days = last_days(person)
        known = {host: day for host, day in days.items() if day is not None}
        if len(set(days.values())) > 1:
            words = ", ".join(f"{day or 'no end'} on {host}" for host, day in days.items())
            end = last_day(person)
            yield Conflict(
                "end differs",
                f"{person.name} is valid until {words}; users.yml says {end or 'no end'}, the latest",
                "decide",
                tuple(days),
                (person.name,),
                (f"gpuadmin extend-user {word(person.name)} --expires YYYY-MM-DD",),
            )
        elif known:
            over[person.name] = sorted(known)
    for hosts, names in _group_same(over).items():
        ends = ", ".join(f"{name} {last_day(people.persons[name])}" for name in names[:10])
        yield Conflict(
            "account ends",
            f"the last day of {counted(len(names), 'account')} is known and in users.yml: {ends}",
            "note",
            hosts,
            tuple(names),
            ("gpuadmin check        # says who has expired; gpuadmin remove-user NAME, for who has left",),
        )


def _find_passwords(people: People) -> Iterator[Conflict]:
    """Who was shut out by hand, and who has no password at all."""
    states: tuple[tuple[str, str, str, Level, str], ...] = (
        (
            "locked", "password locked",
            "the password is locked by hand, and they still get in by key; users.yml does not lock them", "decide",
            "gpuadmin lock-user {}",
        ),
        ("empty", "no password", "the password is empty: whoever types the name is in", "decide", "passwd -l {}"),
    )  # fmt: skip
    for state, kind, words, level, command in states:
        whose = {
            person.name: [host for host, one in person.accounts.items() if one["password"] == state]
            for person in people.persons.values()
        }
        for hosts, names in _group_same({name: ones for name, ones in whose.items() if ones}).items():
            yield Conflict(kind, f"{listed(names)}: {words}", level, hosts, tuple(names), _on(hosts, command, names))


def _on(hosts: Sequence[str], command: str, names: Sequence[str]) -> tuple[str, ...]:
    lines = several(names, command)
    return tuple(lines) if command.startswith("gpuadmin") else (on(hosts), *lines)


def _find_keys(people: People, hosts: Sequence[Host]) -> Iterator[Conflict]:
    for host in hosts:
        for name, keys in (host.part("keys") or {}).items():
            if name not in people.persons:
                continue
            for one in keys["options"]:
                yield Conflict(
                    "key with options",
                    f"{name}: the key {one['fingerprint']} has {', '.join(one['names'])} in front of it; users.yml"
                    " holds bare keys, so it stays in ~/.ssh/authorized_keys alone, which gpuadmin leaves to them",
                    "note",
                    (host.name,),
                    (name,),
                )
    shared: dict[str, list[str]] = {}
    for person in people.persons.values():
        for blob in person.shared_keys:
            shared.setdefault(blob, []).append(person.name)
    for names in shared.values():
        yield Conflict(
            "key shared",
            f"{', '.join(names)} have the same key; it is in users.yml for none of them, and stays in their"
            " ~/.ssh/authorized_keys",
            "decide",
            (),
            tuple(names),
            ("# ask whose it is", *several(names[:1], "gpuadmin change-user {} --add-key FILE.pub")),
        )
    yield from _find_unread_keys(people, hosts)
    without = [person.name for person in people.persons.values() if person.user is not None and not person.user.keys]
    if without and not any(host.without_root for host in hosts):
        yield Conflict(
            "no key",
            f"{counted(len(without), 'person has', 'people have')} no key in users.yml: {listed(without)}. They get"
            " in as"
            " they do now: passwords and ~/.ssh/authorized_keys stay",
            "note",
            (),
            tuple(without),
            (*several(without[:3], "gpuadmin change-user {} --add-key FILE.pub"),),
        )


def _find_unread_keys(people: People, hosts: Sequence[Host]) -> Iterator[Conflict]:
    """What is in files of keys and no key, and files that could not be read, by why."""
    odd: dict[str, dict[str, list[str]]] = {}
    closed: dict[str, dict[str, list[str]]] = {}
    for host in hosts:
        for name, keys in (host.part("keys") or {}).items():
            if name in people.persons and keys["odd"]:
                why = "; ".join(keys["why"]) or "is not a public key that sshd takes, or there are more than fit"
                odd.setdefault(why, {}).setdefault(name, []).append(host.name)
            if name in people.persons and keys["problem"] and host.without_root is None:
                closed.setdefault(keys["problem"], {}).setdefault(name, []).append(host.name)
    for why, whose in sorted(odd.items()):
        for where, names in _group_same(whose).items():
            words = f"{listed(names)}: of a line in a file of keys: {why}; sshd passes it over"
            yield Conflict("key damaged", words, "note", where, tuple(names))
    for why, whose in sorted(closed.items()):
        for where, names in _group_same(whose).items():
            words = f"{listed(names)}: a file of keys could not be read ({why}): what is in it is not in users.yml"
            yield Conflict("keys not read", words, "decide", where, tuple(names))


def _find_undecided(people: People, hosts: Sequence[Host]) -> Iterator[Conflict]:
    """Keys and addresses that some hosts have and not all: whoever is root of one host can write them there."""
    if any(host.without_root for host in hosts):
        return  # another look says which keys all have
    for person in people.persons.values():
        if person.user is None:
            continue
        asked = {host.name for host in hosts}
        read = {host.name for host in hosts if not ((host.part("keys") or {}).get(person.name) or {}).get("problem")}
        mine = {key.split()[1] for key in person.user.keys}
        together: dict[tuple[str, ...], list[str]] = {}
        for blob, key in person.keys.items():
            # what all hosts have is no one host's doing: whether it is in users.yml was decided before
            if blob not in mine and not people.everywhere <= set(key.hosts):
                together.setdefault(key.hosts, []).append(key.text)
        for where, lines in together.items():
            fingerprints = ", ".join(key_fingerprint(line.split()[1]) for line in lines)
            verb, they = ("is", "It is") if len(lines) == 1 else ("are", "They are")
            yield Conflict(
                KEY,
                f"{person.name}: {fingerprints} {verb} on {_describe_hosts(where, people, read)}. {they} not in"
                " users.yml, which goes to every host",
                "decide",
                where,
                (person.name,),
                (
                    f"# ask {word(person.name)} for the key's fingerprint: root of one host can write a key there",
                    *(
                        f"gpuadmin change-user {word(person.name)} --add-key {word(' '.join(line.split()[:2]))}"
                        for line in lines
                    ),
                ),
            )
        for email, one in person.addresses.items() if person.user.email is None else ():
            yield Conflict(
                "address to be decided",
                f"{person.name}: {email} is the e-mail address on {_describe_hosts(one.hosts, people, asked)}. It is"
                " not in users.yml",
                "decide",
                one.hosts,
                (person.name,),
                (f"gpuadmin change-user {word(person.name)} --email {word(email)}",),
            )


def _describe_hosts(hosts: Sequence[str], people: People, asked: Collection[str]) -> str:
    without = sorted(people.everywhere - set(hosts))
    absent, unknown = [one for one in without if one in asked], [one for one in without if one not in asked]
    not_there = f", and not on {listed(absent)}" if absent else ""
    return listed(hosts) + not_there + (f" (not known of {listed(unknown)})" if unknown else "")


def _find_texts(people: People) -> Iterator[Conflict]:
    whose = {
        person.name: [host for host, one in person.accounts.items() if UNREADABLE in one["gecos"]]
        for person in people.persons.values()
        if person.user is not None and not person.user.note
    }
    for hosts, names in _group_same({name: ones for name, ones in whose.items() if ones}).items():
        yield Conflict(
            "full name not read",
            f"{listed(names)}: the full name in passwd is neither UTF-8 nor EUC-KR, so users.yml has none; mails begin"
            " with it",
            "note",
            hosts,
            tuple(names),
            tuple(several(names[:5], "gpuadmin change-user {} --note 'FULL NAME'")),
        )


def _find_services(people: People, hosts: Sequence[Host]) -> Iterator[Conflict]:
    """Who may be a service: a unit runs as them, or nobody has logged in with it for a year on any host."""
    idle: dict[str, list[str]] = {}
    days: dict[str, list[int]] = {}
    for host in hosts:
        used = host.part("used") or {"units": {}, "idle": None}
        for name in host.people.keys() & people.persons.keys():
            if people.persons[name].user is None:
                continue
            if name in used["units"]:
                words = f"{name}: {used['units'][name]} runs as it. Is it a person? {_IF_SERVICE}"
                yield Conflict("person or service", words, "decide", (host.name,), (name,))
            idle.setdefault(name, []).append(host.name)
            if used["idle"] is not None and name in used["idle"]:
                days.setdefault(name, []).append(used["idle"][name])
    # of a host that does not say it somebody may have logged in to it yesterday
    whose = {
        name: ones for name, ones in idle.items() if len(days.get(name, ())) == len(ones) and min(days[name]) > 365
    }
    for where, names in _group_same(whose).items():
        ago = ", ".join(f"{name} for {min(days[name])} days" for name in names[:10])
        words = f"{listed(names)}: no login for a year ({ago}). Is it a person? {_IF_SERVICE}"
        yield Conflict("person or service", words, "decide", where, tuple(names))


_IF_SERVICE = "A service's name goes out of users.yml and under `protected` in gpuadmin.yml"


def _find_shells(people: People, settings: Settings) -> Iterator[Conflict]:
    usual = settings.accounts.shell
    whose: dict[str, list[str]] = {}
    for person in people.persons.values():
        other = [host for host, one in person.accounts.items() if one["shell"] != usual]
        if other and person.user is not None:
            whose[person.name] = other
    for hosts, names in _group_same(whose).items():
        yield Conflict(
            "shell differs",
            f"{listed(names)}: provision sets the login shell of everybody to {usual} (accounts.shell); a file such as"
            " ~/.bash_profile can start another one",
            "note",
            hosts,
            tuple(names),
        )


def _group_same(whose: Mapping[str, Sequence[str]]) -> dict[tuple[str, ...], list[str]]:
    """Given the hosts of each name, return the names that have the same hosts together."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, hosts in sorted(whose.items()):
        found.setdefault(tuple(hosts), []).append(name)
    return found

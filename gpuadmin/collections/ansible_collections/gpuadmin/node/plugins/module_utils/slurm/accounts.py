"""People in Slurm's accounting: each in the account of their group, which has its share and its limits. Pure.

A project is a WCKey, which Slurm counts beside accounts: what a job is counted for changes no turn and no limit.
Nobody is deleted, so that what they have used stays: whoever is locked or has left may submit nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuadmin.common.records.queue import Group

from ..errors import NodeError
from ..fields import quoted, valid_name
from .booking import Reservation

#: Jobs that an admin makes in somebody's name (exceptions.py) have no limits and come first. It is in
#: nobody's associations, so people cannot ask for it.
EXCEPTION = "exception"
#: What jobs are counted for whose person names no project: Slurm refuses those of people without any WCKey. Names of
#: projects begin with a letter.
NO_PROJECT = "0"
#: The group of everybody who is not in another.
EVERYBODY = "people"


def format_limits(group: Group) -> tuple[str, ...]:
    """As sacctmgr prints them: Flags, MaxTRESPerUser, MaxWall, MaxSubmitJobsPerUser. A job that is too much by itself
    is refused at once (DenyOnLimit)."""
    days, hours = divmod(group.hours, 24)
    wall = f"{days}-{hours:02}:00:00" if days else f"{hours:02}:00:00"
    printed = {**_amounts(group), "mem": group.memory and _printed(group.memory)}
    most = ",".join(f"{name}={amount}" for name, amount in printed.items() if amount is not None)
    return "DenyOnLimit", most, wall, str(group.queued)


def _amounts(group: Group) -> dict[str, int | str | None]:
    """What one person may have at once, by Slurm's names and in its order."""
    memory = group.memory and f"{group.memory}G"
    return {"cpu": group.cpus, "gres/gpu": group.gpus, "mem": memory, "node": group.nodes}


def _printed(memory: int) -> str:
    """So many GiB as Slurm prints them."""
    if memory < 1024:
        return f"{memory}G"
    return f"{memory // 1024}T" if memory % 1024 == 0 else f"{memory / 1024:.2f}T"


@dataclass(frozen=True)
class Person:
    """``uid``: None where the site does not say it."""

    name: str
    group: str
    locked: bool
    uid: int | None = None
    projects: Sequence[str] = ()


@dataclass(frozen=True)
class Seen:
    """What sacctmgr prints. ``accounts``: share by account; ``qos``: limits by name; ``people``: account → person →
    at most so many jobs, as text. ``bookings``: one that has begun ends by itself, when nobody uses it.
    ``projects``: by person."""

    accounts: Mapping[str, str] = field(default_factory=dict)
    qos: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    people: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    bookings: Sequence[Reservation] = ()
    projects: Mapping[str, Collection[str]] = field(default_factory=dict)


ASK_PEOPLE = ("sacctmgr", "-nP", "show", "assoc", "format=account,user,fairshare,maxsubmitjobs")
ASK_QOS = ("sacctmgr", "-nP", "show", "qos", "format=name,flags,maxtresperuser,maxwall,maxsubmitjobsperuser")
ASK_PROJECTS = ("sacctmgr", "-nP", "show", "wckey", "format=user,wckey")


def seen(people: str, qos: str, bookings: Sequence[Reservation] = (), projects: str = "") -> Seen:
    """What the three questions are answered with. ``bookings``: those that have not begun."""
    accounts: dict[str, str] = {}
    of: dict[str, dict[str, str]] = {}
    for line in people.splitlines():
        account, user, share, submit = (*line.split("|"), "", "", "")[:4]
        if user:
            of.setdefault(account, {})[user] = submit
        elif account:
            accounts[account] = share
    limits = {}
    for line in qos.splitlines():
        name, *rest = line.split("|")
        limits[name] = tuple(rest)
    members: dict[str, set[str]] = {}
    for line in projects.splitlines():
        user, _, project = line.partition("|")
        if user and project:
            members.setdefault(user, set()).add(project)
    return Seen(accounts, limits, of, bookings, members)


def parse_slurm_people(
    users: Iterable[Mapping[str, object]], absent: Iterable[Mapping[str, object]], groups: Sequence[Group], today: int
) -> list[Person]:
    """``users``, ``absent``: as for accounts. ``today``: days since 1970. Raises NodeError for what is not a name."""
    shared = {one.name for one in groups}
    found = []
    for one, gone in [*((one, False) for one in users), *((one, True) for one in absent)]:
        name, expires = one.get("name"), one.get("expires")
        # guard: what is not a name is given to no program of Slurm's
        if not isinstance(name, str) or not valid_name(name):
            raise NodeError(f"{quoted(name)} is not a name")
        projects = one.get("projects") or ()
        # guard: what is not a name is given to sacctmgr as no project
        if not isinstance(projects, (list, tuple)) or not all(isinstance(x, str) and valid_name(x) for x in projects):
            raise NodeError(f"{quoted(name)}: the projects are not names")
        over = isinstance(expires, int) and expires < today
        group = one.get("group")  # for limits alone, where the queue has no such group
        locked = gone or bool(one.get("locked")) or over
        uid = one.get("uid")
        group = group if group in shared else EVERYBODY
        found.append(Person(name, group, locked, uid if type(uid) is int else None, tuple(projects)))
    return found


def commands(groups: Sequence[Group], people: Sequence[Person], there: Seen) -> list[tuple[str, ...]]:
    """What sacctmgr and scontrol have to do: first what closes. Nobody is added who may not use it anyway."""
    change = ("sacctmgr", "-i")
    named = {person.name: person for person in people}
    found: list[tuple[str, ...]] = []
    for account, of in there.people.items():
        closing = [name for name, submit in of.items() if name in named and named[name].locked and submit != "0"]
        if closing:  # guard: whoever is locked submits no job
            found.append(_users("modify", closing, f"account={account}", "set", "maxsubmitjobs=0"))
    found += [
        ("scontrol", "delete", f"ReservationName={one.name}")
        for one in there.bookings
        # guard: whoever is locked keeps nothing from others that they have booked
        if any(person.locked and one.number(person.name) is not None for person in people)
    ]
    if EXCEPTION not in there.qos:
        found.append((*change, "add", "qos", EXCEPTION, "Priority=1", "Flags=PartitionTimeLimit"))
    for one in groups:
        if one.name not in there.qos:
            found.append((*change, "add", "qos", one.name))
        if there.qos.get(one.name) != (limits := format_limits(one)):
            flags, _, wall, queued = limits
            most = ",".join(f"{name}={amount or -1}" for name, amount in _amounts(one).items())
            found.append(
                (*change, "modify", "qos", one.name, "set", f"Flags={flags}", f"MaxTRESPerUser={most}",
                 f"MaxWall={wall}", f"MaxSubmitJobsPerUser={queued}")
            )  # fmt: skip
        if one.name not in there.accounts:
            found.append((*change, "add", "account", one.name, f"fairshare={one.share}"))
        elif there.accounts[one.name] != str(one.share):
            found.append((*change, "modify", "account", one.name, "set", f"fairshare={one.share}"))
    for one in groups:
        have = there.people.get(one.name, {})
        mine = [person for person in people if person.group == one.name]
        new = [person.name for person in mine if person.name not in have and not person.locked]
        if new:
            own = (f"account={one.name}", f"qos={one.name}", f"defaultqos={one.name}")
            found.append((*change, "add", "user", ",".join(new), *own))
        moved = [name for name in new if any(name in of for account, of in there.people.items() if account != one.name)]
        if moved:
            found.append(_users("modify", moved, "set", f"defaultaccount={one.name}"))
    for account, of in there.people.items():
        left = [
            name
            for name in of
            if name in named
            and named[name].group != account
            and not named[name].locked  # guard: what whoever is locked has used stays where it was
        ]
        still = [name for name in left if of[name] != "0"]
        if still:  # guard: nobody asks by a group in which a job keeps them
            found.append(_users("modify", still, f"account={account}", "set", "maxsubmitjobs=0"))
        found += [_users("delete", [name], f"account={account}") for name in left]
        opening = [
            name
            for name, submit in of.items()
            if name in named
            and not named[name].locked
            and named[name].group == account  # guard: nobody asks by a group that they have left
            and submit == "0"
        ]
        if opening:
            found.append(_users("modify", opening, f"account={account}", "set", "maxsubmitjobs=-1"))
    return found + _project_commands(people, there)


def _project_commands(people: Sequence[Person], there: Seen) -> list[tuple[str, ...]]:
    add = ("sacctmgr", "-i", "add", "user")
    found: list[tuple[str, ...]] = []
    everybody = {name for of in there.people.values() for name in of} | {one.name for one in people if not one.locked}
    # guard: who is in no project submits jobs as before -> []
    lacking = sorted(name for name in everybody if NO_PROJECT not in there.projects.get(name, ()))
    if lacking:
        found.append((*add, ",".join(lacking), f"wckey={NO_PROJECT}"))
    joining = set(lacking)
    for person in people:
        had = set(there.projects.get(person.name, ())) - {NO_PROJECT}
        if new := [one for one in person.projects if one not in had and not person.locked]:
            found.append((*add, person.name, f"wckey={','.join(new)}"))
            joining.add(person.name)
        if old := sorted(had - set(person.projects)):  # guard: nobody computes for a project that they have left
            found.append(_users("delete", [person.name], f"wckey={','.join(old)}"))
    if joining:  # the last one that was added is it otherwise, or for Slurm 23.11's controller none
        found.append(_users("modify", sorted(joining), "set", f"defaultwckey={NO_PROJECT}"))
    return found


#: Fields of squeue's that `find_jobs` needs, with their widths.
JOB_FIELDS = {"JobID": 24, "UserName": 64, "UserID": 24}


def find_jobs(people: Sequence[Person], lines: Iterable[str], between: str) -> list[str]:
    """Given squeue's lines of JOB_FIELDS, return the numbers of the jobs that locked people have, each once.

    They are found by uid: this host may have no account of theirs any more, and `scancel --user` refuses such a name.
    """
    names = {person.name for person in people if person.locked and person.uid is None}
    uids = {str(person.uid) for person in people if person.locked and person.uid is not None}
    found: dict[str, None] = {}
    for line in lines:
        if line.strip():
            job, name, uid = (part.strip() for part in line.split(between)[:3])
            if uid in uids or name in names:
                found[job] = None
    return list(found)


def _users(verb: str, names: Iterable[str], *words: str) -> tuple[str, ...]:
    """One call for all of these people."""
    return ("sacctmgr", "-i", verb, "user", "where", f"name={','.join(names)}", *words)

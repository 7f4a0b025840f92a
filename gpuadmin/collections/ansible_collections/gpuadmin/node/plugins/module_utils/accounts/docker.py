"""Who gets Docker: a directory for data, subordinate ids, and the people who ask for it themselves. Pure, as
compute.py is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuadmin.common.names import LOGIN
from gpuadmin.common.records.people import UserReport

from ..fields import User, quoted, valid_name
from ..textdb import number
from .account import identify
from .databases import Databases
from .desired import Record, Settings
from .observed import Observed
from .plan import Plan, Request
from .scratch import stage_scratch
from .subids import edited, plan_subids
from .subids import parse as parse_ranges


def has_docker(user: User, settings: Settings, observed: Observed) -> bool:
    """Whether somebody has Docker here: because the site says so, or because they took it and their data lies here."""
    if settings.docker_data is None or not settings.login:
        return False
    return user.docker or observed.docker.get(user.name) == ("directory", user.uid)


def stage_docker(user: User, settings: Settings, observed: Observed, plan: Plan, entry: UserReport) -> None:
    if observed.docker_problem:
        entry.status, entry.problem = "conflict", observed.docker_problem
        return
    found = observed.docker.get(user.name)
    path = f"{settings.docker_data}/{user.name}"
    if found is None:
        if user.locked:
            return  # made when they may come in again; after a wipe nobody gets a new place before the account goes
        plan.docker.append((user.name, user.uid, user.gid))
        plan.docker_parent = not observed.docker_parent
        entry.operations.append(f"make {path}")
    elif found == ("directory", user.uid):  # guard: Docker data of another is kept -> True
        return  # nearly everybody's; what follows reads all ranges for one person
    # guard: who gives their place for Docker away in a namespace keeps no root from being confirmed
    elif found[0] == "directory" and _subordinate(user, found[1], settings, observed):
        # Anybody can do that to theirs in a user namespace; stopping here would stop the node's trial of a new root.
        plan.problems.append(f"user {user.name}: {path} is their subordinate id {found[1]}'s, given away by themselves")
    else:
        entry.status, entry.problem = (
            "conflict",
            f"{path} is a {found[0]} of uid {found[1]}, not {user.uid}: kept. {_way_out(path, found, user)}",
        )


def _way_out(path: str, found: tuple[str, int], user: User) -> str:
    """What an admin does about a place of Docker's data that is not its person's: only they can know whose it was."""
    aside = f"mv {path} {path}.of-{found[1]}, then sync-users makes a new one"
    if found[0] != "directory":
        return f"See what it is, and move it: {aside}"
    return f"If the data is {user.name}'s: chown {user.uid}:{user.gid} {path}. If not: {aside}"


def _subordinate(user: User, uid: int, settings: Settings, observed: Observed) -> bool:
    """Whether ``uid`` is one that somebody's namespaces may use, and no account's."""
    ranges = parse_ranges(observed.files.get("subuid") or "")
    theirs = any(
        one.start <= uid < one.end for one in ranges if one.owner in (user.name, str(user.uid)) and not one.problem
    )
    # guard: a place for Docker that is somebody else's is a conflict -> True
    return (
        theirs or uid >= settings.subid_base  # guard: subordinate ids that were there before are somebody's own
    )


def _no_docker_for(name: str, uid: int, record: Record | None, data: Databases, observed: Observed) -> str | None:
    """Why somebody of the registry who asks for Docker does not get it, or None."""
    found, shadow = data.passwd.get(name), data.shadow.get(name)
    if (
        record is None
        # guard: a name and a uid that are not one person's
        or record.user.uid != uid
    ):
        return "this account was not made by gpuadmin"
    # guard: who has no account on the host gets no Docker -> shadow is None
    if found is None or shadow is None or number(found[2]) != uid or data.passwd.count(name) != 1:
        return "this account is not set up on this host"
    last = number(shadow[7])
    # guard: who is locked gets no Docker
    if (
        record.user.locked
        # guard: a lock that an admin set by hand holds
        or shadow[1].startswith("!")
    ):
        return "this account is locked"
    # guard: whose account has expired gets no Docker
    if any(day is not None and day <= observed.today for day in (record.user.expires, last)):
        return "this account has expired"
    return None


def stage_askers(
    request: Request, data: Databases, observed: Observed, plan: Plan
) -> tuple[dict[str, Record], list[User]]:
    """Stage Docker, and nothing else, for those who ask for it themselves; the same returned as by `_stage_users`."""
    records: dict[str, Record] = {}
    docker_users: list[User] = []
    settings = request.settings
    for name, uid in request.docker:
        entry = plan.users[name] = UserReport("ok")
        record = observed.desired.records.get(name)
        if settings.docker_data is None or not settings.login:
            entry.status, entry.problem = "conflict", "Docker is not set up on this host"
            continue
        known: User | None
        if settings.source == "registry":
            entry.problem = _no_docker_for(name, uid, record, data, observed)
            if entry.problem or record is None:
                entry.status = "conflict"
                continue
            known = record.user
        else:
            if record is None:
                if valid_name(name):  # guard: a directory's name becomes a path only if it is plain -> True
                    record = Record(User(name, uid, uid, home=f"/home/{name}"))
                else:
                    entry.problem = f"the name {quoted(name)} is refused: it must match {LOGIN}"
            if record is not None and record.user.locked:
                record, entry.problem = None, "this account is locked"
            if record is None:
                entry.status = "conflict"
                continue
            known = identify(record.user, observed, settings, entry)
            if known is not None and known.uid != uid:
                known, entry.status, entry.problem = None, "conflict", f"uid {uid} is not this account's"
        if known is not None:
            docker_users.append(known)
            records[name] = replace(record, user=replace(record.user, docker=True))
            stage_docker(known, settings, observed, plan, entry)
            stage_scratch(known, settings, observed, plan, entry)  # who is in the directory alone has none yet
    return records, docker_users


def stage_subids(plan: Plan, observed: Observed, data: Databases, settings: Settings, docker_users: list[User],
                  gone: list[tuple[str, int]], by_name: Mapping[str, User]) -> None:  # fmt: skip
    if settings.docker_data is None or not settings.login:
        return
    texts = {kind: observed.files.get(kind) or "" for kind in ("subuid", "subgid")}
    # Ranges go only when Docker data could be looked for and is not there: files belong to them.
    drop = [
        pair
        for pair in gone
        if observed.docker_parent  # guard: ranges stay while Docker data may be there
        and pair[0] not in observed.docker  # guard: ranges stay where Docker data lies
        and pair[0] not in by_name
    ]
    subids = plan_subids(
        texts["subuid"], texts["subgid"], [(user.name, user.uid) for user in docker_users],
        base=settings.subid_base, size=settings.subid_size, uid_first=settings.uid_first,
        real_ids=data.real_ids() | {one for pair in observed.identities.values() for one in pair}, drop=drop,
    )  # fmt: skip
    plan.problems += subids.problems
    for name, operations in subids.operations.items():
        plan.users[name].operations += operations
    for name, problem in subids.conflicts.items():
        if plan.users[name].status != "conflict":
            plan.users[name].status, plan.users[name].problem = "conflict", problem
    for kind, text in texts.items():
        result = edited(text, subids.append[kind], subids.remove[kind])
        if result != text:
            plan.files[kind] = result

"""Given what a host has and what is wanted, decide the operations. Pure: nothing here touches a file.

Check mode and the real run call ``compute`` alike, so the plan is what is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuadmin.common.records.people import UserReport
from gpuadmin.common.text import counted

from ..fields import User, quoted, whole_number
from ..textdb import number
from .account import conflict, identify, stage_account, with_gecos
from .databases import Databases
from .desired import DesiredState, Record, Settings, parse_user
from .docker import has_docker, stage_askers, stage_docker, stage_subids
from .observed import Observed
from .plan import Plan, Request
from .scratch import stage_scratch

_KEPT_OUT = "is kept out by gpuadmin {0} until that has ended: gpuadmin {0} goes on"


def _accept(request: Request, plan: Plan) -> tuple[list[User], list[tuple[str, int]]]:
    """Parse what came from outside; whoever is refused is reported, the others go on."""
    users: dict[str, User] = {}
    for raw in request.users:
        given = dict(raw)
        if request.settings.source == "directory" and given.get("uid") is None:
            given["uid"] = request.settings.uid_first  # what the directory says replaces it
        user, problem = parse_user(given)
        if user is None:
            plan.users[quoted(raw.get("name"))] = UserReport("conflict", problem=problem)
        else:
            users[user.name] = user
            plan.users[user.name] = UserReport("ok")
    absent = []
    for raw in request.absent:
        gone, uid = raw.get("name"), whole_number(raw.get("uid"))
        if not isinstance(gone, str) or uid is None:
            plan.users[quoted(gone)] = UserReport("conflict", problem="not a name and a uid to remove")
        elif gone in users and users[gone].uid == uid:  # guard: who is wanted is not removed
            del users[gone]
            plan.users[gone] = UserReport("conflict", problem="is both wanted and to be removed")
        else:
            absent.append((gone, uid))
    return list(users.values()), absent


def _remove(name: str, uid: int, data: Databases, users: Mapping[str, User], observed: Observed, plan: Plan) -> bool:
    """Stage the removal of one account; False if it must not be touched."""
    entry = UserReport("removed")
    if name not in users:
        plan.users[name] = entry
    found = data.passwd.get(name)
    if found is not None and number(found[2]) != uid:  # guard: an account that has another uid is not removed
        if name not in users:
            entry.status, entry.problem = (
                "conflict",
                f"exists here with uid {quoted(found[2])}, not {uid}: kept",
            )
            return False
        return True  # the name has a new owner, and the old account is gone
    wanted_again = name in users
    if found is not None:
        data.remove_passwd(name)
        for group in data.find_groups(name):
            data.leave(name, group)
        entry.operations.append(f"remove account uid {uid}")
    elif data.shadow.remove(name):
        entry.operations.append("remove a shadow entry without account")
    others = data.primary.get(uid, set()) - {name}
    if (
        data.gid(name) == uid
        # guard: a group that others are in is not removed
        and not others
    ):
        data.remove_group(name)
        if found is None:
            entry.operations.append(f"remove group gid {uid}")
    if not wanted_again:
        if name in observed.keys:
            plan.keys[name] = None
            entry.operations.append("remove ssh keys")
        if name in observed.linger:
            plan.linger.append(name)
            entry.operations.append("end linger")
    else:
        plan.users[name].operations += entry.operations
    return True


def _stage_removals(
    absent: Sequence[tuple[str, int]], data: Databases, users: Mapping[str, User], observed: Observed, plan: Plan,
    settings: Settings,
) -> list[tuple[str, int]]:  # fmt: skip
    """Stage all removals; return those that hold, which accounts.json keeps for roots that are not running now."""
    gone = []
    registry = settings.source == "registry"
    for name, uid in absent:
        if registry and not settings.uid_first <= uid <= settings.uid_last:  # guard: only people's uids are removed
            problem = f"uid {uid} is outside {settings.uid_first}-{settings.uid_last}: never touched"
            plan.users[name] = UserReport("conflict", problem=problem)
        elif not registry or _remove(name, uid, data, users, observed, plan):
            plan.users.setdefault(name, UserReport("removed"))
            gone.append((name, uid))
    return gone


def _stage_group(group: str, gid: int, data: Databases, plan: Plan) -> bool:
    """Stage a group of the site's; False if its name or id is taken, so nobody may join it."""
    if data.has_group(group):
        found = data.gid(group)
        if found == gid:  # guard: a site group of another gid is joined by nobody -> True
            return True
        plan.failures.append(f"group {group} has gid {found} here, not {gid}: nobody joins it")
        return False
    others = data.groups_by_gid.get(gid, [])
    if others:  # guard: a gid that is taken is not the site's
        plan.failures.append(f"group {group}: gid {gid} belongs to '{others[0]}' here")
        return False
    data.add_group(group, gid)
    plan.host_operations.append(f"group {group}: create gid {gid}")
    return True


def _stage_keys(user: User, settings: Settings, observed: Observed, plan: Plan, entry: UserReport) -> None:
    keys = "".join(f"{key}\n" for key in user.keys).encode() if settings.login else b""
    if keys != observed.keys.get(user.name, b""):
        plan.keys[user.name] = keys or None
        count = counted(len(user.keys), "ssh key")
        entry.operations.append(f"write {count}" if keys else "remove ssh keys")


def _refused(
    users: Sequence[User], refused: Mapping[str, str], data: Databases, records: Mapping[str, Record]
) -> dict[str, str]:
    """Of those whom the storage host refused, the ones who have no account here and had none on another root: name →
    why."""
    found = {}
    for user in users:
        record = records.get(user.name)
        if (
            user.name not in refused
            # guard: a refusal takes nobody's account out of the admin's hands
            or data.passwd.get(user.name) is not None
        ):
            continue
        if record is None or record.user.uid != user.uid:  # guard: an account on record is not a new one -> True
            found[user.name] = f"the storage host refused: {refused[user.name]}"
    return found


def _stage_users(
    users: Sequence[User],
    refused: Mapping[str, str],
    data: Databases,
    observed: Observed,
    settings: Settings,
    plan: Plan,
) -> tuple[dict[str, Record], list[User]]:
    """Stage all wanted users; return what to record, and (as NSS knows them) those that get Docker."""
    records: dict[str, Record] = {}
    docker_users: list[User] = []
    registry = settings.source == "registry"
    site_group = registry and _stage_group(settings.group, settings.gid, data, plan)
    teams = [one.name for one in settings.groups if registry and _stage_group(one.name, one.gid, data, plan)]
    people = [with_gecos(one, data, observed) for one in users]  # guard: a GECOS stays for another root -> users
    for user in people:
        entry = plan.users[user.name]
        known: User | None = user
        if registry:
            verb = observed.renumbered.get(user.name)
            problem = (
                conflict(user, data, settings)
                or (_KEPT_OUT.format(verb) if verb else None)  # guard: who is renumbered stays closed
                # guard: no newcomer gets an id that a file of somebody in a renumbering may still have
                or (observed.old_ids.get(user.uid) if data.passwd.get(user.name) is None else None)
                or refused.get(user.name)  # guard: who was refused a home gets no account
            )
            if problem:
                entry.status, entry.problem = "conflict", problem
                continue
            records[user.name] = stage_account(user, data, observed, settings, site_group, entry, teams)
            if settings.login and user.shell in observed.missing_shells:
                plan.remarks.append(f"user {user.name}: this host has no {user.shell}, their login shell by users.yml")
            _stage_keys(user, settings, observed, plan, entry)
        else:
            records[user.name] = Record(user)
            known = identify(user, observed, settings, entry)
        if known is not None and has_docker(known, settings, observed):
            docker_users.append(known)
            records[user.name] = replace(records[user.name], user=replace(user, docker=True))
            stage_docker(known, settings, observed, plan, entry)
        if known is not None:
            stage_scratch(known, settings, observed, plan, entry)
    return records, docker_users


def _report_unknown(data: Databases, settings: Settings, old: DesiredState, plan: Plan) -> None:
    mentioned = set(plan.users) | set(old.records)
    for fields in data.passwd.entries():
        uid = number(fields[2])
        if uid is not None and settings.uid_first <= uid <= settings.uid_last and fields[0] not in mentioned:
            plan.users[fields[0]] = UserReport("unknown", problem=f"uid {uid} is in nobody's registry: kept")


def compute(request: Request, observed: Observed) -> Plan:
    """Given the wanted accounts and what the host has, return every change and the report."""
    settings, old = request.settings, observed.desired
    plan = Plan(desired=old)
    users, absent = _accept(request, plan)
    by_name = {user.name: user for user in users}
    data = Databases(observed.files)
    gone = _stage_removals(absent, data, by_name, observed, plan, settings)
    if request.docker:
        fresh, docker_users = stage_askers(request, data, observed, plan)
    else:
        refused = _refused(users, request.refused, data, old.records)
        fresh, docker_users = _stage_users(users, refused, data, observed, settings, plan)
    stage_subids(plan, observed, data, settings, docker_users, gone, by_name)
    if settings.source == "registry":
        _report_unknown(data, settings, old, plan)
    for entry in plan.users.values():
        if entry.operations and entry.status == "ok":
            entry.status = "differs"
    for kind, text in data.texts().items():
        if text != observed.files.get(kind):
            plan.files[kind] = text
    leaving = set(gone)
    kept = {name: one for name, one in old.records.items() if (name, one.user.uid) not in leaving}
    present = {(name, record.user.uid) for name, record in fresh.items()}
    removed = [pair for pair in dict.fromkeys([*old.removed, *gone]) if pair not in present]
    full = set(kept) <= set(by_name)
    root = observed.root if full or old.root is None else old.root
    plan.desired = DesiredState(settings, {**kept, **fresh}, tuple(removed), root)
    plan.desired_changed = plan.desired != old
    return plan

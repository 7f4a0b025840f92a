"""Given what a host has and what is wanted, decide the operations. Pure: nothing here touches a file.

Check mode and the real run call ``compute`` alike, so the plan is what is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..fields import User, parse_user, quoted, valid_name, whole_number
from ..report import UserReport
from ..text import counted
from ..textdb import number
from .account import conflict, stage_account
from .databases import Databases
from .desired import DesiredState, Record, Settings
from .observed import Observed
from .subids import edited, plan_subids
from .subids import parse as parse_ranges


@dataclass(frozen=True)
class Request:
    """``users`` and ``absent`` as they came from outside, unchecked.

    ``docker``: (name, uid) of those who ask for Docker themselves. That is a difference, not a record: nothing else of
    theirs is changed, and whoever may not log in is refused. ``refused``: name → why the storage host made no home;
    they get no new account either, and one that they have is converged as anybody's.
    """

    settings: Settings
    users: Sequence[Mapping[str, object]] = ()
    absent: Sequence[Mapping[str, object]] = ()
    docker: Sequence[tuple[str, int]] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Plan:
    desired: DesiredState
    files: dict[str, str] = field(default_factory=dict)
    keys: dict[str, bytes | None] = field(default_factory=dict)
    docker: list[tuple[str, int, int]] = field(default_factory=list)  # name, uid, gid to make
    docker_parent: bool = False
    linger: list[str] = field(default_factory=list)
    host_operations: list[str] = field(default_factory=list)
    users: dict[str, UserReport] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    desired_changed: bool = False

    @property
    def operations(self) -> list[str]:
        lines = list(self.host_operations)
        for name, entry in self.users.items():
            lines += [f"user {name}: {text}" for text in entry.operations]
        if self.desired_changed:
            lines.append("accounts.json: record the accounts")
        return lines

    @property
    def conflicts(self) -> list[str]:
        lines = [f"user {name}: {one.problem}" for name, one in self.users.items() if one.status == "conflict"]
        return self.failures + lines

    def report(self) -> dict[str, object]:
        return {
            "users": {name: entry.as_dict() for name, entry in self.users.items()},
            "problems": self.failures + self.problems,
        }


def _accept(request: Request, plan: Plan) -> tuple[list[User], list[tuple[str, int]]]:
    """Check what came from outside; whoever is refused is reported, the others go on."""
    users: dict[str, User] = {}
    taken: dict[int, str] = {}
    for raw in request.users:
        given = dict(raw)
        if request.settings.source == "directory" and given.get("uid") is None:
            given["uid"] = request.settings.uid_first  # what the directory says replaces it
        user, problem = parse_user(given)
        label = str(raw.get("name")) if valid_name(raw.get("name")) else quoted(raw.get("name"))
        if user is None:
            plan.users[label] = UserReport("conflict", problem=problem)
        elif label in plan.users or (user.uid in taken and request.settings.source == "registry"):
            other = taken.get(user.uid, label)
            for name in (label, other):
                users.pop(name, None)
                plan.users[name] = UserReport("conflict", problem=f"name or uid {user.uid} is given twice")
        else:
            users[label], taken[user.uid] = user, label
            plan.users[label] = UserReport()
    absent = []
    for raw in request.absent:
        gone, uid = raw.get("name"), whole_number(raw.get("uid"))
        if not isinstance(gone, str) or not valid_name(gone) or uid is None:
            plan.users[quoted(gone)] = UserReport("conflict", problem="not a valid name and uid to remove")
        elif gone in users and users[gone].uid == uid:
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
    if found is not None and number(found[2]) != uid:
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
        for group in data.groups_of(name):
            data.leave(name, group)
        entry.operations.append(f"remove account uid {uid} (home and Docker data stay)")
    elif data.shadow.remove(name):
        entry.operations.append("remove a shadow entry without account")
    others = data.primary.get(uid, set()) - {name}
    if data.gid(name) == uid and not others:
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


def _has_docker(user: User, settings: Settings, observed: Observed) -> bool:
    """Whether somebody has Docker here: because the site says so, or because they took it and their data lies here."""
    if settings.docker_data is None or not settings.login:
        return False
    return user.docker or observed.docker.get(user.name) == ("directory", user.uid)


def _docker(user: User, settings: Settings, observed: Observed, plan: Plan, entry: UserReport) -> None:
    if observed.docker_problem:
        entry.status, entry.problem = "conflict", observed.docker_problem
        return
    found = observed.docker.get(user.name)
    path = f"{settings.docker_data}/{user.name}"
    if found is None:
        if user.locked:
            return  # made when they may come in again; whose data was wiped gets no new place before the account goes
        plan.docker.append((user.name, user.uid, user.gid))
        plan.docker_parent = not observed.docker_parent
        entry.operations.append(f"make {path}")
    elif found[0] == "directory" and _subordinate(user, found[1], settings, observed):
        # Anybody can do that to theirs, in a user namespace; what stops here would be the node's trial of a new root.
        plan.problems.append(f"user {user.name}: {path} is their subordinate id {found[1]}'s, given away by themselves")
    elif found != ("directory", user.uid):
        entry.status, entry.problem = (
            "conflict",
            f"{path} is a {found[0]} of uid {found[1]}, not {user.uid}: kept",
        )


def _subordinate(user: User, uid: int, settings: Settings, observed: Observed) -> bool:
    """Whether ``uid`` is one that somebody's namespaces may use, and no account's."""
    ranges = parse_ranges(observed.files.get("subuid") or "")
    theirs = any(
        one.start <= uid < one.end for one in ranges if one.owner in (user.name, str(user.uid)) and not one.problem
    )
    return theirs or uid >= settings.subid_base


def _identify(user: User, observed: Observed, settings: Settings, entry: UserReport) -> User | None:
    """Directory mode: the user as NSS knows it, or None."""
    found = observed.identities.get(user.name)
    if found is None:
        entry.status, entry.problem = "unknown", "the directory does not know this user on this host yet"
        return None
    if found[0] < settings.uid_first:
        entry.status, entry.problem = (
            "conflict",
            f"uid {found[0]} is below {settings.uid_first}: a system account",
        )
        return None
    return replace(user, uid=found[0], gid=found[1])


def _stage_removals(
    absent: Sequence[tuple[str, int]], data: Databases, users: Mapping[str, User], observed: Observed, plan: Plan,
    settings: Settings,
) -> list[tuple[str, int]]:  # fmt: skip
    """Stage all removals; return those that hold, which accounts.json keeps for roots that are not running now."""
    gone = []
    registry = settings.source == "registry"
    for name, uid in absent:
        if registry and not settings.uid_first <= uid <= settings.uid_last:
            problem = f"uid {uid} is outside {settings.uid_first}-{settings.uid_last}: never touched"
            plan.users[name] = UserReport("conflict", problem=problem)
        elif not registry or _remove(name, uid, data, users, observed, plan):
            plan.users.setdefault(name, UserReport("removed"))
            gone.append((name, uid))
    return gone


def _stage_site_group(data: Databases, settings: Settings, plan: Plan) -> bool:
    """Stage the group that all users are in; False if its name or id is taken, and nobody is to join it."""
    if data.has_group(settings.group):
        found = data.gid(settings.group)
        if found == settings.gid:
            return True
        plan.failures.append(f"group {settings.group} has gid {found} here, not {settings.gid}: nobody joins it")
        return False
    others = data.groups_by_gid.get(settings.gid, [])
    if others:
        plan.failures.append(f"group {settings.group}: gid {settings.gid} belongs to '{others[0]}' here")
        return False
    data.add_group(settings.group, settings.gid)
    plan.host_operations.append(f"group {settings.group}: create gid {settings.gid}")
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
    """Of those whom the storage host refused, who has no account here, nor had one on another root: name → why."""
    found = {}
    for user in users:
        record = records.get(user.name)
        if user.name not in refused or data.passwd.get(user.name) is not None:
            continue
        if record is None or record.user.uid != user.uid:
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
    site_group = registry and _stage_site_group(data, settings, plan)
    for user in users:
        entry = plan.users[user.name]
        known: User | None = user
        if registry:
            problem = conflict(user, data, settings) or refused.get(user.name)
            if problem:
                entry.status, entry.problem = "conflict", problem
                continue
            records[user.name] = stage_account(user, data, observed, settings, site_group, entry)
            _stage_keys(user, settings, observed, plan, entry)
        else:
            records[user.name] = Record(user)
            known = _identify(user, observed, settings, entry)
        if known is not None and _has_docker(known, settings, observed):
            docker_users.append(known)
            records[user.name] = replace(records[user.name], user=replace(user, docker=True))
            _docker(known, settings, observed, plan, entry)
    return records, docker_users


def _no_docker_for(name: str, uid: int, record: Record | None, data: Databases, observed: Observed) -> str | None:
    """Why somebody of the registry who asks for Docker does not get it, or None."""
    found, shadow = data.passwd.get(name), data.shadow.get(name)
    if record is None or record.user.uid != uid:
        return "this account was not made by gpuadmin"
    if found is None or shadow is None or number(found[2]) != uid or data.passwd.count(name) != 1:
        return "this account is not set up on this host"
    last = number(shadow[7])
    if record.user.locked or shadow[1].startswith("!"):
        return "this account is locked"
    if any(day is not None and day <= observed.today for day in (record.user.expires, last)):
        return "this account has expired"
    return None


def _stage_askers(
    request: Request, data: Databases, observed: Observed, plan: Plan
) -> tuple[dict[str, Record], list[User]]:
    """Stage Docker, and nothing else, for those who ask for it themselves; the same returned as by `_stage_users`."""
    records: dict[str, Record] = {}
    docker_users: list[User] = []
    settings = request.settings
    for name, uid in request.docker:
        entry = plan.users[name] = UserReport()
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
                user, entry.problem = parse_user({"name": name, "uid": uid})
                record = None if user is None else Record(user)
            if record is not None and record.user.locked:
                record, entry.problem = None, "this account is locked"
            if record is None:
                entry.status = "conflict"
                continue
            known = _identify(record.user, observed, settings, entry)
            if known is not None and known.uid != uid:
                known, entry.status, entry.problem = None, "conflict", f"uid {uid} is not this account's"
        if known is not None:
            docker_users.append(known)
            records[name] = replace(record, user=replace(record.user, docker=True))
            _docker(known, settings, observed, plan, entry)
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
        fresh, docker_users = _stage_askers(request, data, observed, plan)
    else:
        refused = _refused(users, request.refused, data, old.records)
        fresh, docker_users = _stage_users(users, refused, data, observed, settings, plan)
    _stage_subids(plan, observed, data, settings, docker_users, gone, by_name)
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


def _stage_subids(plan: Plan, observed: Observed, data: Databases, settings: Settings, docker_users: list[User],
                  gone: list[tuple[str, int]], by_name: Mapping[str, User]) -> None:  # fmt: skip
    if settings.docker_data is None or not settings.login:
        return
    texts = {kind: observed.files.get(kind) or "" for kind in ("subuid", "subgid")}
    # Ranges go only when Docker data could be looked for and is not there: files belong to them.
    drop = [
        pair for pair in gone if observed.docker_parent and pair[0] not in observed.docker and pair[0] not in by_name
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

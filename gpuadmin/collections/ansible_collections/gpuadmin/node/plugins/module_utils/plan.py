"""Given what a host has and what is wanted, decide the operations. Pure: nothing here touches a file.

Check mode and the real run call ``compute`` alike, so the plan is what is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

from .databases import Databases, real_hash
from .fields import User, parse_user, shown, valid_name, whole_number
from .subids import edited, plan_subids
from .textdb import number
from .truth import Record, Settings, Truth

NOLOGIN = "/usr/sbin/nologin"
EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Request:
    """``users`` and ``absent`` as they came from outside, unchecked."""

    settings: Settings
    users: Sequence[Mapping[str, object]] = ()
    absent: Sequence[Mapping[str, object]] = ()


@dataclass(frozen=True)
class Observed:
    """What a host has. ``today``: days since 1970-01-01. ``identities``: name → (uid, gid) by NSS, directory mode."""

    files: Mapping[str, str | None]
    truth: Truth = field(default_factory=Truth)
    keys: Mapping[str, bytes] = field(default_factory=dict)
    docker: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # name → (kind, owner uid)
    docker_parent: bool = False
    docker_problem: str | None = None
    linger: frozenset[str] = frozenset()
    identities: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    root: str = "/"
    today: int = 0


@dataclass
class UserReport:
    status: str = "ok"
    operations: list[str] = field(default_factory=list)
    problem: str | None = None

    def as_dict(self) -> dict[str, object]:
        return {"status": self.status, "operations": list(self.operations), "problem": self.problem}


@dataclass
class Plan:
    truth: Truth
    files: dict[str, str] = field(default_factory=dict)
    keys: dict[str, bytes | None] = field(default_factory=dict)
    docker: list[tuple[str, int, int]] = field(default_factory=list)  # name, uid, gid to make
    docker_parent: bool = False
    linger: list[str] = field(default_factory=list)
    host_operations: list[str] = field(default_factory=list)
    users: dict[str, UserReport] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    truth_changed: bool = False

    @property
    def operations(self) -> list[str]:
        lines = list(self.host_operations)
        for name, entry in self.users.items():
            lines += [f"user {name}: {text}" for text in entry.operations]
        if self.truth_changed:
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
        label = str(raw.get("name")) if valid_name(raw.get("name")) else shown(raw.get("name"))
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
            plan.users[shown(gone)] = UserReport("conflict", problem="not a valid name and uid to remove")
        elif gone in users and users[gone].uid == uid:
            del users[gone]
            plan.users[gone] = UserReport("conflict", problem="is both wanted and to be removed")
        else:
            absent.append((gone, uid))
    return list(users.values()), absent


def _conflict(user: User, data: Databases, settings: Settings) -> str | None:
    if not settings.uid_first <= user.uid <= settings.uid_last:
        return f"uid {user.uid} is outside {settings.uid_first}-{settings.uid_last}; such accounts are never touched"
    if user.gid != user.uid:
        return f"gid {user.gid} is not the uid {user.uid}"
    if data.passwd.count(user.name) > 1:
        return "has more than one line in /etc/passwd"
    found = data.passwd.get(user.name)
    if found is not None and number(found[2]) != user.uid:
        return f"exists here with uid {shown(found[2])}, not {user.uid}"
    others = [name for name in data.names_by_uid.get(user.uid, []) if name != user.name]
    if others:
        return f"uid {user.uid} belongs to '{others[0]}' here"
    if data.has_group(user.name) and data.gid(user.name) != user.uid:
        return f"a group '{user.name}' exists here with gid {data.gid(user.name)}, not {user.uid}"
    others = [name for name in data.groups_by_gid.get(user.uid, []) if name != user.name]
    if others:
        return f"gid {user.uid} belongs to the group '{others[0]}' here"
    return None


def validity(expiry: str) -> str:
    """In words, what an expiry field means: it holds the first day on which nobody is let in any more."""
    value = number(expiry)
    if value is None:
        return "valid without an end"
    try:
        return f"valid until {(EPOCH + timedelta(days=value - 1)).isoformat()}"
    except OverflowError:
        return f"valid until the day before day {value}"


def _shadow(user: User, data: Databases, record: Record | None, trusted: bool, today: int, ops: list[str]) -> Record:
    """Stage the shadow entry; return the record with the password that a new root is to get."""
    found = data.shadow.get(user.name) if data.passwd.get(user.name) is not None else None
    known = record.password if record is not None else None
    expiry = "1" if user.locked else ("" if user.expires is None else str(user.expires))
    if found is None:
        changed = record.password_changed if record is not None and known else None
        mark = "!" if user.locked else ""
        day = today if changed is None else changed
        data.shadow.set(user.name, [user.name, mark + (known or "*"), str(day), "0", "99999", "7", "", expiry, ""])
        if user.locked:
            ops.append("lock")
        elif expiry:
            ops.append(validity(expiry))
        return Record(user, known, day if known else None)
    fields = list(found)
    kept, changed = real_hash(fields[1]), number(fields[2])
    if known and not trusted and kept != known and record is not None:
        # Another root than the one last applied: it may be older than what was recorded since.
        kept, changed = known, record.password_changed
        fields[2] = str(today if changed is None else changed)
        ops.append("restore the recorded password")
    word = ("!" if user.locked else "") + (kept or "*")
    was_locked = found[1].startswith("!") and found[7] == "1"
    if user.locked and (word != found[1] or expiry != found[7]):
        ops.append("lock")
    elif not user.locked and was_locked:
        ops.append("unlock" + (f", {validity(expiry)}" if expiry else ""))
    else:
        if expiry != found[7]:
            ops.append(validity(expiry))
        if word != found[1] and not (ops and ops[-1] == "restore the recorded password"):
            ops.append("set the password field to " + ("the same hash, not locked" if kept else "'*' (no password)"))
    fields[1], fields[7] = word, expiry
    data.shadow.set(user.name, fields)
    return Record(user, kept, changed if kept else None)


def _memberships(
    user: User, data: Databases, record: Record | None, trusted: bool, existed: bool, settings: Settings,
    site_group: bool, ops: list[str],
) -> tuple[str, ...]:  # fmt: skip
    """Stage the memberships; return the supplementary groups to record."""
    here = set(data.groups_of(user.name)) - {user.name, settings.group}
    known = set(record.groups) if record is not None else set()
    if existed and trusted:  # what is here counts, besides groups that this root does not have
        known = {group for group in known if not data.has_group(group)}
    wanted = here | known
    for group in sorted(wanted - here):
        if data.has_group(group):
            data.join(user.name, group)
            ops.append(f"join {group}")
    if site_group and settings.group not in data.groups_of(user.name):
        data.join(user.name, settings.group)
        ops.append(f"join {settings.group}")
    return tuple(sorted(wanted))


def _account(user: User, data: Databases, observed: Observed, settings: Settings, site_group: bool,
             entry: UserReport) -> Record:  # fmt: skip
    """Stage one account in all four databases."""
    ops = entry.operations
    record = observed.truth.records.get(user.name)
    if record is not None and record.user.uid != user.uid:
        record = None  # another person's
    trusted = observed.truth.root in (None, observed.root)
    found = data.passwd.get(user.name)
    shell = user.shell if settings.login else NOLOGIN
    wanted = [user.name, "x", str(user.uid), str(user.gid), user.gecos, user.home, shell]
    if found is None:
        entry.status = "missing"
        ops.append(f"create uid {user.uid}")
    elif found != wanted:
        entry.status = "differs"
        labels = ("name", "password field", "uid", "gid", "gecos", "home", "shell")
        for label, old, new in zip(labels, found, wanted):
            if old != new:
                shown_old = "(hidden)" if label == "password field" else old
                ops.append(f"set {label} {new!r} (was {shown_old!r})")
    if not data.has_group(user.name):
        data.add_group(user.name, user.gid)
        if found is not None:
            ops.append(f"create group gid {user.gid}")
    fresh = _shadow(user, data, record, trusted, observed.today, ops)
    if found != wanted:
        data.set_passwd(user.name, wanted)
    groups = _memberships(user, data, record, trusted, found is not None, settings, site_group, ops)
    return replace(fresh, groups=groups)


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
                f"exists here with uid {shown(found[2])}, not {uid}: kept",
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


def _docker(user: User, settings: Settings, observed: Observed, plan: Plan, entry: UserReport) -> None:
    if observed.docker_problem:
        entry.status, entry.problem = "conflict", observed.docker_problem
        return
    found = observed.docker.get(user.name)
    path = f"{settings.docker_data}/{user.name}"
    if found is None:
        plan.docker.append((user.name, user.uid, user.gid))
        plan.docker_parent = not observed.docker_parent
        entry.operations.append(f"make {path}")
    elif found != ("directory", user.uid):
        entry.status, entry.problem = (
            "conflict",
            f"{path} is a {found[0]} of uid {found[1]}, not {user.uid}: kept",
        )


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
    """Stage all removals; return those that hold, which the truth keeps for roots that are not running now."""
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
        count = f"{len(user.keys)} ssh key" + ("" if len(user.keys) == 1 else "s")
        entry.operations.append(f"write {count}" if keys else "remove ssh keys")


def _stage_users(
    users: Sequence[User], data: Databases, observed: Observed, settings: Settings, plan: Plan
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
            problem = _conflict(user, data, settings)
            if problem:
                entry.status, entry.problem = "conflict", problem
                continue
            records[user.name] = _account(user, data, observed, settings, site_group, entry)
            _stage_keys(user, settings, observed, plan, entry)
        else:
            records[user.name] = Record(user)
            known = _identify(user, observed, settings, entry)
        if known is not None and user.docker and settings.login and settings.docker_data is not None:
            docker_users.append(known)
            _docker(known, settings, observed, plan, entry)
    return records, docker_users


def _report_unknown(data: Databases, settings: Settings, old: Truth, plan: Plan) -> None:
    mentioned = set(plan.users) | set(old.records)
    for fields in data.passwd.entries():
        uid = number(fields[2])
        if uid is not None and settings.uid_first <= uid <= settings.uid_last and fields[0] not in mentioned:
            plan.users[fields[0]] = UserReport("unknown", problem=f"uid {uid} is in nobody's registry: kept")


def compute(request: Request, observed: Observed) -> Plan:
    """Given the wanted accounts and what the host has, return every change and the report."""
    settings, old = request.settings, observed.truth
    plan = Plan(truth=old)
    users, absent = _accept(request, plan)
    by_name = {user.name: user for user in users}
    data = Databases(observed.files)
    gone = _stage_removals(absent, data, by_name, observed, plan, settings)
    fresh, docker_users = _stage_users(users, data, observed, settings, plan)
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
    plan.truth = Truth(settings, {**kept, **fresh}, tuple(removed), root)
    plan.truth_changed = plan.truth != old
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

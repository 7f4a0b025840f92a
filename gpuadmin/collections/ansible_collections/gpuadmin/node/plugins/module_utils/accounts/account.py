"""One account: may it be touched, and its lines in passwd, shadow, group and gshadow. Pure, as compute.py is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

from gpuadmin.common.records.people import UserReport

from ..fields import CONTROL, FIRST_HUMAN_UID, User, quoted
from ..textdb import number
from .databases import Databases, real_hash
from .desired import Record, Settings
from .observed import Observed

NOLOGIN = "/usr/sbin/nologin"
EPOCH = date(1970, 1, 1)
USERS = 100  # the gid of the group `users`, people's first one where they have no group each


def conflict(user: User, data: Databases, settings: Settings) -> str | None:
    if not settings.uid_first <= user.uid <= settings.uid_last:  # guard: only people's uids are touched
        return f"uid {user.uid} is outside {settings.uid_first}-{settings.uid_last}; such accounts are never touched"
    if user.gid != user.uid:  # guard: a gid is the uid
        return f"gid {user.gid} is not the uid {user.uid}"
    if data.passwd.count(user.name) > 1:  # guard: two lines of one name are touched by nobody
        return "has more than one line in /etc/passwd"
    found = data.passwd.get(user.name)
    if found is not None and number(found[2]) != user.uid:  # guard: an account of another uid is kept
        return f"exists here with uid {quoted(found[2])}, not {user.uid}"
    others = [name for name in data.names_by_uid.get(user.uid, []) if name != user.name]
    if others:  # guard: a uid of somebody else is not given twice
        return f"uid {user.uid} belongs to '{others[0]}' here"
    if data.has_group(user.name) and data.gid(user.name) != user.uid:  # guard: a group of another gid is kept
        return f"a group '{user.name}' exists here with gid {data.gid(user.name)}, not {user.uid}"
    others = [name for name in data.groups_by_gid.get(user.uid, []) if name != user.name]
    if others:  # guard: a gid of another group is not given twice
        return f"gid {user.uid} belongs to the group '{others[0]}' here"
    return None


def identify(user: User, observed: Observed, settings: Settings, entry: UserReport) -> User | None:
    """Directory mode: the user as NSS knows it, or None."""
    found = observed.identities.get(user.name)
    if found is None:
        entry.status, entry.problem = "unknown", "the directory does not know this user on this host yet"
        return None
    if found[0] < settings.uid_first:  # guard: a directory's system accounts are not people
        entry.status, entry.problem = (
            "conflict",
            f"uid {found[0]} is below {settings.uid_first}: a system account",
        )
        return None
    return replace(user, uid=found[0], gid=found[1])


def validity(expiry: str) -> str:
    """In words, what an expiry field means: it holds the first day without a login."""
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
    expiry = (
        # guard: a locked account is expired too -> ''
        "1" if user.locked else ("" if user.expires is None else str(user.expires))
    )
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
        # Not the root last applied to: it may be older than what was recorded since.
        kept, changed = known, record.password_changed
        fields[2] = str(today if changed is None else changed)
        ops.append("restore the recorded password")
    word = (
        ("!" if user.locked else "") + (kept or "*")  # guard: a locked account gets no password back
    )
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


def _former_groups(user: User, found: list[str] | None, data: Databases) -> set[str]:
    """The group that an account had as its first one and leaves: sshd's AllowGroups and a group's files go by it."""
    gid = None if found is None else number(found[3])
    if gid is None or gid == user.gid or not (gid == USERS or gid >= FIRST_HUMAN_UID):
        return set()  # guard: nobody becomes a member of a system's group by it -> set(data.groups_by_gid.get(gid, []))
    return set(data.groups_by_gid.get(gid, [])[:1])


def _memberships(
    user: User, data: Databases, record: Record | None, trusted: bool, first: set[str], existed: bool,
    settings: Settings, site_group: bool, ops: list[str], teams: Sequence[str],
) -> tuple[str, ...]:  # fmt: skip
    """Stage the memberships; return the supplementary groups to record. ``teams``: groups that users.yml says."""
    for team in teams:
        if team in data.find_groups(user.name) and team != user.group:  # guard: who leaves a group of people loses it
            data.leave(user.name, team)
            ops.append(f"leave {team}")
        elif team == user.group and team not in data.find_groups(user.name):
            data.join(user.name, team)
            ops.append(f"join {team}")
    here = set(data.find_groups(user.name)) - {user.name, settings.group, *teams}
    known = set(record.groups) - {*teams} if record is not None else set()
    if existed and trusted:  # what is here counts, besides groups that this root does not have
        known = {group for group in known if not data.has_group(group)}
    wanted = here | known | first
    for group in sorted(wanted - here):
        if data.has_group(group):
            data.join(user.name, group)
            ops.append(f"join {group}")
    if site_group and settings.group not in data.find_groups(user.name):
        data.join(user.name, settings.group)
        ops.append(f"join {settings.group}")
    return tuple(sorted(wanted))


def with_gecos(user: User, data: Databases, observed: Observed) -> User:
    """Given a person whose GECOS the site leaves open, return them with the one of this root, or of an earlier one."""
    found, record = data.passwd.get(user.name), observed.desired.records.get(user.name)
    text = user.gecos or _gecos(found)
    trusted = found is not None and observed.desired.root in (None, observed.root)
    if not text and not trusted and record is not None and record.user.uid == user.uid:
        text = record.user.gecos
    # guard: a GECOS that node code of an older root cannot read is not recorded
    return user if CONTROL.search(text) else replace(user, gecos=text)


def _gecos(found: list[str] | None) -> str:
    return "" if found is None else found[4]


def stage_account(user: User, data: Databases, observed: Observed, settings: Settings, site_group: bool,
             entry: UserReport, teams: Sequence[str] = ()) -> Record:  # fmt: skip
    """Stage one account in all four databases."""
    ops = entry.operations
    record = observed.desired.records.get(user.name)
    if record is not None and record.user.uid != user.uid:  # guard: a record of another uid is another person's
        record = None  # another person's
    trusted = observed.desired.root in (None, observed.root)
    found = data.passwd.get(user.name)
    shell = user.shell if settings.login else NOLOGIN
    gecos = user.gecos or _gecos(found)  # guard: a GECOS that is there stays -> user.gecos
    if settings.login and found is not None and shell in observed.missing_shells:
        shell = found[6]  # guard: nobody who can log in gets a login shell that this host lacks -> shell
    wanted = [user.name, "x", str(user.uid), str(user.gid), gecos, user.home, shell]
    if found is None:
        entry.status = "missing"
        ops.append(f"create uid {user.uid}")
    elif found != wanted:
        entry.status = "differs"
        labels = ("name", "password field", "uid", "gid", "gecos", "home", "shell")
        for label, old, new in zip(labels, found, wanted):
            if old != new:
                old_text = "(hidden)" if label == "password field" else old
                ops.append(f"set {label} {new!r} (was {old_text!r})")
    if not data.has_group(user.name):
        data.add_group(user.name, user.gid)
        if found is not None:
            ops.append(f"create group gid {user.gid}")
    fresh = _shadow(user, data, record, trusted, observed.today, ops)
    if found != wanted:
        data.set_passwd(user.name, wanted)
    first = _former_groups(user, found, data) - {settings.group}
    groups = _memberships(user, data, record, trusted, first, found is not None, settings, site_group, ops, teams)
    return replace(fresh, groups=groups)

"""Sorting applications: which are ready, which are incomplete, and which an admin must look at. Pure.

A form can be filled in by anybody, in anybody's name. So an address decides who somebody is: a student id alone never
does where the group's list knows the address. Of several forms from one address, the latest counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuadmin.applications.form import Application
from gpuadmin.applications.group import Group, Member, listed
from gpuadmin.applications.names import Newcomer, choose_names
from gpuadmin.config.schema import Registry, Settings, User

#: What can be missing (the codes of templates/mail/incomplete) → what an admin reads.
MISSING = {
    "form": "has not filled in the form",
    "group": "is not in the group",
    "name": "no name",
    "student_id": "no valid student id",
    "email": "no address of an allowed domain",
    "docker": "does not say whether Docker is wanted",
    "terms": "has not agreed to the terms",
    "key_missing": "no ssh public key",
    "key_private": "sent a private key",
    "key_bad": "the ssh public key is not valid",
}


@dataclass(frozen=True)
class Entry:
    """One applicant. `missing` are the codes of templates/mail/incomplete; `reason` is for the admin."""

    email: str | None
    person: str | None
    line: int | None
    application: Application | None = None
    account: str | None = None
    present: bool = False
    missing: tuple[str, ...] = ()
    reason: str = ""

    @property
    def lacks(self) -> str:
        """What is missing, for an admin."""
        return "; ".join(MISSING[code] for code in self.missing)

    def document(self) -> dict[str, Any]:
        """As JSON shows it; keys are left out, they are long, and in users.yml afterwards."""
        application = self.application
        return {
            "email": self.email,
            "person": self.person,
            "line": self.line,
            "time": application.time.isoformat() if application is not None and application.time is not None else None,
            "student_id": application.student_id if application is not None else None,
            "account": self.account,
            "present": self.present,
            "docker": application.docker if application is not None else None,
            "missing": list(self.missing),
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Lists:
    """The three lists, and notes about rows that do not count."""

    ready: tuple[Entry, ...]
    incomplete: tuple[Entry, ...]
    unknown: tuple[Entry, ...]
    notes: tuple[str, ...]


def sort_applications(
    applications: Sequence[Application],
    members: Sequence[Member] | None,
    registry: Registry,
    settings: Settings,
    names: Mapping[str, str],
) -> Lists:
    """Given the forms, the group's list (None: there is none) and who is registered, return the three lists.

    `names` (address -> login name) is what the admin decided about login names.
    """
    counting, notes = latest(applications)
    users = {user.email.casefold(): user for user in registry.users if user.email is not None}
    entries = [_entry(application, users) for application in counting]
    group = None if members is None else Group.of(members)
    entries = _without_shared_ids(entries, decided=() if group is None else group.decided)
    matched: set[int] = set()
    if group is not None:
        entries, matched = _matched(entries, group)
        entries = _without_shared_ids(entries)  # guard: two answers with one student id make no account
    entries = _without_shared_keys(entries, registry)
    entries = _with_names(entries, registry, settings, names)
    if group is not None:
        entries += _silent_members(group, matched, entries, users)
    notes += [note for entry in entries if entry.present for note in _about(entry, users, settings)]
    return Lists(
        ready=tuple(entry for entry in entries if not entry.reason and not entry.missing),
        incomplete=tuple(entry for entry in entries if not entry.reason and entry.missing),
        unknown=tuple(entry for entry in entries if entry.reason),
        notes=tuple(notes),
    )


def _about(entry: Entry, users: Mapping[str, User], settings: Settings) -> Iterator[str]:
    """What an admin may want to do for somebody who has an account already; this verb leaves it as it is."""
    user = users[(entry.email or "").casefold()]
    if user.locked:
        yield f"{entry.email}: the account {user.name} is locked: gpuadmin unlock-user {user.name}"
    if settings.term is not None and user.expires is not None and user.expires < settings.term.deadline:
        yield f"{entry.email}: the account {user.name} ends on {user.expires}: gpuadmin extend-user {user.name}"
    known = {_blob(key) for key in user.keys}
    if entry.application is not None and {_blob(key) for key in entry.application.keys} - known:
        yield f"{entry.email}: the form has an ssh key that {user.name} does not have; it was not added"


def latest(applications: Sequence[Application]) -> tuple[list[Application], list[str]]:
    """Given forms, return the latest of every address, in the order of the file, and remarks about the others.

    The time decides where every form of an address has one, otherwise the order of the file.
    """
    by_address: dict[str, list[Application]] = defaultdict(list)
    for application in applications:
        by_address[(application.email or f"line {application.line}").casefold()].append(application)
    counting, notes = [], []
    for same in by_address.values():
        timed = [(one.time, one.line, one) for one in same if one.time is not None]
        last = max(timed, key=lambda entry: entry[:2])[2] if len(timed) == len(same) else same[-1]
        counting.append(last)
        others = ", ".join(str(one.line) for one in same if one is not last)
        if others:
            keys = " (with another ssh key)" if any(one.keys != last.keys for one in same if one.keys) else ""
            notes.append(f"{last.email}: line {last.line} counts, the latest{keys}; not line {others}")
    return sorted(counting, key=lambda one: one.line), notes


def _entry(application: Application, users: Mapping[str, User]) -> Entry:
    user = users.get(application.email.casefold()) if application.email is not None else None
    entry = Entry(
        email=application.email,
        person=application.name,
        line=application.line,
        application=application,
        account=user.name if user is not None else None,
        present=user is not None,
        missing=() if user is not None else application.missing,
    )
    if application.email is None:
        return replace(entry, reason="no usable e-mail address, so nobody can be asked")
    return entry


def _without_shared_ids(entries: Sequence[Entry], *, decided: Collection[str] = ()) -> list[Entry]:
    """A student id in answers from several addresses belongs to nobody. `decided`: the group's list says whose those
    are.

    Whose answer has another id than the group's list is asked for theirs, and shares none.
    """
    open_ids = [None if entry.reason or "student_id" in entry.missing else _student_id(entry) for entry in entries]
    ids = Counter(number for number in open_ids if number is not None and number not in decided)
    return [
        replace(entry, reason=f"student id {number} is under {ids[number]} addresses; remove the rows that are wrong")
        if number is not None and ids[number] > 1
        else entry
        for entry, number in zip(entries, open_ids, strict=True)
    ]


def _student_id(entry: Entry) -> str | None:
    return entry.application.student_id if entry.application is not None else None


def _matched(entries: Sequence[Entry], group: Group) -> tuple[list[Entry], set[int]]:
    """Match with the group's list. Returns the entries and the lines of those members who have filled the form in."""
    found: list[tuple[Entry, Member | None]] = []
    for entry in entries:
        if entry.reason or entry.email is None:
            found.append((entry, None))
            continue
        number = _student_id(entry)
        same_address, same_id = group.by_email.get(entry.email.casefold()), group.by_id.get(number or "")
        if same_address is not None:
            other_id = number is not None and same_address.student_id not in (None, number)
            missing = tuple(dict.fromkeys((*entry.missing, "student_id"))) if other_id else entry.missing
            found.append((replace(entry, missing=missing), same_address))
        elif same_id is None:
            found.append((replace(entry, missing=("group",), reason="is not in the group's list"), None))
        elif same_id.email is not None and same_id.line not in group.doubtful:
            reason = f"student id {number} is in the group's list with another address ({same_id.email})"
            found.append((replace(entry, reason=reason), None))
        else:
            found.append((entry, same_id))
    counts = Counter(member.line for _, member in found if member is not None)
    result = []
    for entry, member in found:
        reason = (
            ""
            if member is None
            # guard: one person under two addresses of the group's list gets no account
            else group.doubtful.get(member.line, "")
        )
        if member is not None and not reason and counts[member.line] > 1:
            reason = f"line {member.line} of the group's list fits {counts[member.line]} forms"
        result.append(replace(entry, reason=reason) if reason else entry)
    return result, set(counts)


def _without_shared_keys(entries: Sequence[Entry], registry: Registry) -> list[Entry]:
    """A key belongs to one person. If somebody else has it, too, an admin finds out whether the two are one person."""
    owners: dict[str, dict[str, str]] = defaultdict(dict)  # key -> who has it -> how an admin knows them
    for user in registry.users:
        for key in user.keys:
            owners[_blob(key)][(user.email or user.name).casefold()] = f"the account {user.name}"
    for entry in entries:
        who = entry.email or f"line {entry.line}"
        for key in entry.application.keys if entry.application is not None else ():
            owners[_blob(key)].setdefault(who.casefold(), who)
    return [_with_own_key(entry, owners) for entry in entries]


def _with_own_key(entry: Entry, owners: Mapping[str, Mapping[str, str]]) -> Entry:
    if entry.application is None or entry.present or entry.reason:
        return entry
    me = (entry.email or f"line {entry.line}").casefold()
    others = {
        words for key in entry.application.keys for who, words in owners[_blob(key)].items() if who != me
    }  # fmt: skip
    if not others:  # guard: one ssh key for two people makes no account -> True
        return entry
    return replace(entry, reason=f"{listed(others)}: the same ssh key; if this is not one person, ask for another key")


def _blob(key: str) -> str:
    return key.split()[1]


def _with_names(
    entries: Sequence[Entry], registry: Registry, settings: Settings, names: Mapping[str, str]
) -> list[Entry]:
    """Login names for those who are ready and have none."""
    result = list(entries)
    newcomers = [
        (place, entry.application, entry.email)
        for place, entry in enumerate(entries)
        if entry.application is not None
        and entry.email is not None
        and not (entry.reason or entry.missing or entry.present)
    ]
    unnamed = [Newcomer(email, application.user_name) for _, application, email in newcomers]
    for (place, _, _), named in zip(newcomers, choose_names(unnamed, registry, settings, names), strict=True):
        result[place] = replace(result[place], account=named.name, reason=named.problem)
    return result


def _silent_members(
    group: Group, matched: set[int], entries: Sequence[Entry], users: Mapping[str, User]
) -> list[Entry]:
    """Those who are in the group and have not filled in the form; who has an account already is left in peace."""
    seen = {entry.email.casefold() for entry in entries if entry.email is not None}
    silent = []
    for member in group.members:
        address = member.email.casefold() if member.email is not None else None
        if member.line in matched or (address is not None and (address in users or address in seen)):
            continue
        if address is not None:
            seen.add(address)
        reason = group.doubtful.get(member.line, "")
        if address is None:
            reason = f"line {member.line} of the group's list has no form and no address"
        silent.append(Entry(member.email, member.name, None, missing=("form",), reason=reason))
    return silent

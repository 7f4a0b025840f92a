"""Causes that keep a person out: users.yml, the account on a host, nologin, and PAM."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from ..records.diagnosis import RegisteredPerson as Person
from .cause import STOPS, Cause, Facts, Row, Table, Text, Thing, tell_admins

_EPOCH = date(1970, 1, 1)
_SYNC = "gpuadmin sync-users --limit HOSTS"
_SITE, _ACCOUNT = Thing("users.yml", None), Thing("account", "account")
ROWS = Table(
    Row("not-registered", STOPS, _SITE, "nobody called {name} is in users.yml", "gpuadmin add-user {name}", None,
        {"close": ("nobody called {name} is in users.yml", "{close} Otherwise: gpuadmin add-user {name}")}),
    Row("removed", STOPS, _SITE, "{name}'s account was removed on {day}", "gpuadmin add-user {name}", None),
    Row("locked", STOPS, _SITE, "{name}'s account is locked in users.yml", "gpuadmin unlock-user {name}", None),
    Row("expired", STOPS, _SITE, "{name}'s account expired: it was valid until {day}",
        "gpuadmin extend-user {name} --expires YYYY-MM-DD", None),
    Row("account-missing", STOPS, _ACCOUNT, "{name} has no account there{others}", _SYNC, None),
    Row("other-uid", STOPS, _ACCOUNT, "{name} has uid {there} there, and {uid} in users.yml",
        "gpuadmin drift --limit HOSTS", None),
    Row("locked-here", STOPS, _ACCOUNT, "{name}'s account is locked there, and not in users.yml", _SYNC, None),
    Row("expired-here", STOPS, _ACCOUNT,
        "{name}'s account expired there on {ended}; users.yml says: valid until {until}", _SYNC, None),
    Row("nologin", STOPS, Thing("log-ins for all (nologin)", "account"),
        "nobody but root may log in: {words}", "gpuadmin run HOSTS -- rm -f {file}{soon}",
        Text("Save your work and log out; log in again later", "nobody may log in at the moment: {words}",
             "작업을 저장하고 로그아웃한 뒤 나중에 다시 로그인하세요", "지금은 아무도 로그인할 수 없습니다: {words}")),
    Row("password-aged", STOPS, Thing("PAM's rules for accounts", "pam_account"),
        "{name}'s password has aged: sshd wants a new one first, and ends commands, scp and editors",
        "gpuadmin run HOSTS -- chage -M -1 {name}", None),
    Row("pam-account", STOPS, Thing("PAM's rules for accounts", "pam_account"),
        "PAM does not let {name} in: {words}",
        "look at /etc/pam.d/sshd and /etc/security/access.conf there, "
        "and: gpuadmin run HOSTS -- journalctl -t sshd -g {name}", None),
    Row("pam-module", STOPS, Thing("PAM's modules", "pam"), "PAM lacks a module: {module} ({file}, line {line})",
        "install it, or take the line away: gpuadmin run HOSTS -- cat {file}", None),
    Row("shell", STOPS, Thing("login shell", "account"),
        "{name}'s login shell {shell} cannot be run there", "gpuadmin provision --limit HOSTS",
        tell_admins("your login shell {shell} does not work on this node",
                    "로그인 셸 {shell}: 이 노드에서 쓸 수 없습니다"),
        {"nologin": ("{name}'s login shell is {shell}, which lets nobody in", _SYNC)}),
)  # fmt: skip
_found = ROWS.find


def judge(facts: Facts, person: Person | None) -> Iterator[Cause]:
    """The causes that lie in the account of a person."""
    if person is None:
        return
    yield from judge_account(facts, person)
    if facts["node"]:
        yield from judge_pam(facts, person)
        for one in (facts.get("pam") or {}).get("missing") or ():
            yield _found("pam-module", module=one["module"], file=one["file"], line=one["line"])


def judge_account(facts: Facts, person: Person) -> Iterator[Cause]:
    """The causes that the account on one host shows."""
    found, name = facts.get("account"), person.name
    if found is None:
        return
    entry = found["passwd"]
    if found["nologin"] is not None and facts["node"]:
        file, words = found["nologin"]["file"], found["nologin"]["words"]
        # shutdown(8) makes the one in /run five minutes before it ends the host, and deletes it when it is cancelled
        soon = "; where a shutdown is planned: gpuadmin run HOSTS -- shutdown -c" if file.startswith("/run/") else ""
        yield _found("nologin", f"{file} is there", file=file, soon=soon, words=words)
    if not person.registered:
        return
    if entry is None:
        others = f", and its uid {person.uid} is {found['others'][0]}'s" if found["others"] else ""
        yield _found("account-missing", name=name, others=others)
        return
    if person.uid is not None and entry["uid"] != person.uid:
        yield _found("other-uid", f"the home is {person.uid}'s", name=name, there=entry["uid"], uid=person.uid)
    if facts["node"]:
        yield from _judge_entry(person, found)


def _judge_entry(person: Person, found: Facts) -> Iterator[Cause]:
    """The causes that the lines of passwd and shadow show."""
    entry, shadow, name = found["passwd"], found["shadow"], person.name
    if shadow is not None:
        last = shadow["expires"]
        if shadow["locked"] and not person.locked:
            yield _found("locked-here", name=name)
        elif last is not None and last <= found["today"] and not person.locked:
            ended = (_EPOCH + timedelta(days=last - 1)).isoformat()
            if person.expires is None or person.expires > ended:
                until = person.expires or "without an end"
                yield _found("expired-here", f"/etc/shadow has day {last}", name=name, ended=ended, until=until)
    if not entry["shell_lets_in"]:
        yield _found("shell/nologin", name=name, shell=entry["shell"])
    elif not entry["shell_runs"]:
        yield _found("shell", "no such program", name=name, shell=entry["shell"])


def judge_pam(facts: Facts, person: Person) -> Iterator[Cause]:
    """The causes that PAM's verdict on an account shows. An account that is locked or has ended is no news here."""
    answer, found = facts.get("pam_account"), facts.get("account") or {}
    shadow = found.get("shadow") or {}
    last = shadow.get("expires")
    ended = shadow.get("locked") or (last is not None and last <= found["today"])
    if answer is None or not answer["refused"] or not person.registered or ended or found.get("nologin") is not None:
        return
    if ((facts.get("keys") or {}).get("settings") or {}).get("usepam") == "no":
        return  # sshd does not ask PAM
    if answer["aged"]:
        yield _found("password-aged", f"PAM: {answer['words']}", name=person.name)
    else:
        yield _found("pam-account", name=person.name, words=answer["words"])

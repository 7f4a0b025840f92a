"""Causes in a person's keys, and in settings of sshd that keep the person out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ..records.diagnosis import RegisteredPerson as Person
from .cause import HINDERS, NOTE, STOPS, Cause, Facts, Row, Table, Thing, type_command

#: Lines of sshd and PAM that turn somebody away for another reason than a wrong key.
_REFUSED = re.compile(
    r"not allowed because|Authentication refused|Access denied|has expired|Too many auth", re.IGNORECASE
)
_SYNC, _ADD = "gpuadmin sync-users --limit HOSTS", "gpuadmin change-user {name} --add-key FILE.pub"
_KEYS, _SETTINGS = Thing("keys", "keys"), Thing("sshd's settings", "keys")
_ASK_SSHD = "gpuadmin run HOSTS -- sshd -T -C user={name},host=x,addr=127.0.0.1"
_NO_KEY = "{name} has no key that sshd takes: {why}"
_HOME_UNREAD = "sshd does not read the keys in {name}'s home: {why}"
_UNREAD = (
    "sshd does not read {name}'s keys of users.yml: AuthorizedKeysFile is another for them",
    "gpuadmin provision --limit HOSTS",
)
ROWS = Table(
    # homes that are away hide keys, so they come first; a home of a wrong mode hides them only from sshd
    Row("no-key", STOPS, _KEYS, _NO_KEY, _ADD, None,
        {"unread": _UNREAD, "bad": (_NO_KEY, _SYNC), "lost": ("{name}'s keys of users.yml are not there", _SYNC)},
        before="home-missing"),
    Row("not-allowed", STOPS, _SETTINGS, "sshd does not let {name} in ({setting})", _ASK_SSHD, None,
        {"keys": ("sshd takes no keys (PubkeyAuthentication no)", _ASK_SSHD),
         "groups": ("sshd lets none of {name}'s groups in ({setting})", _ASK_SSHD)}),
    Row("refused-key", HINDERS, _KEYS, "sshd does not take one of {name}'s keys: {why}", _ADD, None,
        {"unread": _UNREAD, "home": (_HOME_UNREAD, _ADD)},
        before="gpu-kernels"),
    Row("keys-mode", HINDERS, Thing("home", "home"), _HOME_UNREAD, "{name}: chmod go-w ~ ~/.ssh {file}",
        type_command("chmod go-w ~ ~/.ssh {file}", "others may write {path}: sshd refuses the keys in your home",
                     "다른 사람이 쓸 수 있는 권한이라 sshd가 홈에 있는 키를 거부합니다: {path}")),
    Row("sshd", NOTE, Thing("what sshd said of them", "sshd"), "sshd refused {name} lately: {line}",
        "gpuadmin run HOSTS -- journalctl -t sshd -g {name}", None),
)  # fmt: skip
_found = ROWS.find


def judge(facts: Facts, person: Person | None) -> Iterator[Cause]:
    """The causes that lie in the keys of a person, or in sshd's settings."""
    found = facts.get("keys")
    if person is None or not facts["node"] or not person.registered:
        return
    if found is None:  # a person who asks for themselves cannot read the rest
        yield from _judge_modes(facts, person.name)
        return
    account, name = facts.get("account") or {}, person.name
    if account.get("passwd") is None:
        return
    yield from judge_settings(name, found["settings"], account.get("groups") or ())
    site = found["site"]
    home = (facts.get("home") or {}).get("keys") or []
    files = [*([site] if site["read"] else []), *found["elsewhere"], *home]
    good = [one for one in files if one["problem"] is None and any(key["problem"] is None for key in one["keys"])]
    bad = [line for one in files for line in _name_problems(one)]
    lines = (facts.get("sshd") or {}).get("lines", ())
    words = tuple(f"sshd: {line}" for line in lines[-4:])
    refusals = [line for line in lines if _REFUSED.search(line)]
    if refusals:
        yield _found("sshd", *words, name=name, line=refusals[-1])
    unread = next((one for one in home if one["problem"] not in (None, "is missing")), None)
    if person.keys and not site["read"]:
        seen = f"authorizedkeysfile {found['settings'].get('authorizedkeysfile', '')}"
        yield _found("refused-key/unread" if good else "no-key/unread", seen, *bad, *words, name=name)
    elif not good:
        if found["settings"].get("authorizedkeyscommand", "none") != "none":
            return  # the answer of that program is not known
        if person.keys and (site["problem"] == "is missing" or (site["problem"] is None and not site["keys"])):
            yield _found("no-key/lost", *bad, *words, name=name)
        elif person.keys:  # the file is damaged, or could not be read
            yield _found("no-key/bad", *bad, *words, name=name, why=bad[0])
        elif "home" not in facts["unknown"]:  # a note says that keys in it could not be looked at, not that it has none
            yield _found("no-key", *bad, *words, name=name, why=bad[0] if bad else "none is there")
    elif unread is not None:
        yield _found("refused-key/home", *bad, *words, name=name, why=_name_file(unread))
    elif any(key["problem"] for one in good for key in one["keys"]):
        yield _found("refused-key", *bad, *words, name=name, why=bad[0])


def _judge_modes(facts: Facts, name: str) -> Iterator[Cause]:
    """The cause that others may write a file of keys in a home, or a directory above it."""
    for file in (facts.get("home") or {}).get("keys") or ():
        path, mode, _ = _name_file(file).partition(" has mode ") if file["problem"] else ("", "", "")
        if mode:
            yield _found("keys-mode", name=name, why=_name_file(file), file=file["path"], path=path)


def _name_file(file: Facts) -> str:
    """`/home/minji/.ssh/authorized_keys is missing`, or of the directory above it that is at fault."""
    problem = str(file["problem"])
    return problem if problem.startswith("/") else f"{file['path']} {problem}"


def _name_problems(file: Facts) -> Iterator[str]:
    """The problem of a file of keys, or of each of its lines."""
    if file["problem"] is not None:
        yield _name_file(file)
        return
    for key in file["keys"]:
        if key["problem"] is not None:
            kind = f" ({key['kind']})" if key["kind"] else ""
            yield f"line {key['line']} of {file['path']}{kind} {key['problem']}"


def judge_settings(name: str, settings: Mapping[str, Any], groups: Sequence[str]) -> Iterator[Cause]:
    """The settings of sshd's that keep a person out who is in ``groups``."""
    refused = partial(ROWS.find, name=name)
    seen = tuple(f"{key} {value}" for key, value in settings.items())
    if settings.get("pubkeyauthentication") == "no":
        yield refused("not-allowed/keys", *seen)
    allowed, denied = settings.get("allowusers", "").split(), settings.get("denyusers", "").split()
    out = _matches([one for one in denied if "@" not in one], name)  # who comes from where is not known
    if out or (allowed and not _matches([one.partition("@")[0] for one in allowed], name)):
        yield refused("not-allowed", *seen, setting="DenyUsers" if out else "AllowUsers")
    wanted, unwanted = settings.get("allowgroups", "").split(), settings.get("denygroups", "").split()
    out = any(_matches(unwanted, one) for one in groups)
    if out or (wanted and groups and not any(_matches(wanted, one) for one in groups)):
        yield refused("not-allowed/groups", *seen, setting="DenyGroups" if out else "AllowGroups")


def _matches(patterns: Sequence[str], name: str) -> bool:
    """Whether a list of patterns has a name (ssh_config(5), PATTERNS); `!` before one that matches decides."""

    def has(pattern: str) -> bool:
        parts = {"*": ".*", "?": "."}
        return re.fullmatch("".join(parts.get(one, re.escape(one)) for one in pattern), name) is not None

    return any(has(one) for one in patterns) and not any(has(one[1:]) for one in patterns if one[:1] == "!")

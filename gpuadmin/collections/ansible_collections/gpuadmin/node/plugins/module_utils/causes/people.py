"""Whether somebody gets in: the account on a host, sshd's settings, keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from .cause import Cause, Facts, Person

#: What sshd and PAM write where somebody is turned away for a reason that is not a wrong key.
_REFUSED = re.compile(
    r"not allowed because|Authentication refused|Access denied|has expired|Too many auth", re.IGNORECASE
)
_EPOCH = date(1970, 1, 1)
_SYNC = "gpuadmin sync-users --limit HOSTS"


def account(person: Person, facts: Facts) -> Iterator[Cause]:
    """The account on one host, of what it says of it."""
    found, name = facts.get("account"), person.name
    if found is None:
        return
    entry = found["passwd"]
    if found["nologin"] is not None and facts["node"]:
        yield from _nologin(found["nologin"])
    if not person.registered:
        return
    if entry is None:
        others = f", and its uid {person.uid} is {found['others'][0]}'s" if found["others"] else ""
        yield Cause("account-missing", f"{name} has no account there{others}", _SYNC)
        return
    if person.uid is not None and entry["uid"] != person.uid:
        cause = f"{name} has uid {entry['uid']} there, and {person.uid} in users.yml"
        yield Cause("other-uid", cause, "gpuadmin drift --limit HOSTS", (f"the home is {person.uid}'s",))
    if facts["node"]:
        yield from _enters(person, found)


def _nologin(nologin: Facts) -> Iterator[Cause]:
    # shutdown(8) makes the one in /run five minutes before it ends the host, and takes it away when it is cancelled
    soon = "; where a shutdown is planned: gpuadmin run HOSTS -- shutdown -c" if nologin["file"][:5] == "/run/" else ""
    remedy = f"gpuadmin run HOSTS -- rm -f {nologin['file']}{soon}"
    words = nologin["words"]
    yield Cause("nologin", f"nobody but root may log in: {words}", remedy, (f"{nologin['file']} is there",), (words,))


def _enters(person: Person, found: Facts) -> Iterator[Cause]:
    entry, shadow, name = found["passwd"], found["shadow"], person.name
    if shadow is not None:
        last = shadow["expires"]
        if shadow["locked"] and not person.locked:
            yield Cause("locked-here", f"{name}'s account is locked there, and not in users.yml", _SYNC)
        elif last is not None and last <= found["today"] and not person.locked:
            ended = (_EPOCH + timedelta(days=last - 1)).isoformat()
            if person.expires is None or person.expires > ended:
                until = person.expires or "without an end"
                cause = f"{name}'s account expired there on {ended}; users.yml says: valid until {until}"
                yield Cause("expired-here", cause, _SYNC, (f"/etc/shadow has day {last}",))
    shell = entry["shell"]
    if not entry["shell_lets_in"]:
        yield Cause("shell", f"{name}'s login shell is {shell}, which lets nobody in", _SYNC, (), (shell,))
    elif not entry["shell_runs"]:
        cause = f"{name}'s login shell {shell} cannot be run there"
        yield Cause("shell", cause, "gpuadmin provision --limit HOSTS", ("no such program",), (shell,))


def pam_account(person: Person, facts: Facts) -> Iterator[Cause]:
    """What PAM says of an account beyond what is known of it: who is locked or ended is refused by it, too."""
    answer, found, name = facts.get("pam_account"), facts.get("account") or {}, person.name
    shadow = found.get("shadow") or {}
    last = shadow.get("expires")
    ended = shadow.get("locked") or (last is not None and last <= found["today"])
    if answer is None or not answer["refused"] or not person.registered or ended or found.get("nologin") is not None:
        return
    if ((facts.get("keys") or {}).get("settings") or {}).get("usepam") == "no":
        return  # sshd does not ask PAM
    words = answer["words"]
    if answer["aged"]:
        cause = f"{name}'s password has aged: sshd wants a new one first, and ends commands, scp and editors"
        yield Cause("password-aged", cause, f"gpuadmin run HOSTS -- chage -M -1 {name}", (f"PAM: {words}",))
    else:
        rules = "look at /etc/pam.d/sshd and /etc/security/access.conf there"
        remedy = f"{rules}, and: gpuadmin run HOSTS -- journalctl -t sshd -g {name}"
        yield Cause("pam-account", f"PAM does not let {name} in: {words}", remedy, (), (words,))


def pam(facts: Facts) -> Iterator[Cause]:
    """Modules that PAM should load and cannot: a rule with one of them lets nobody in."""
    for one in (facts.get("pam") or {}).get("missing") or ():
        cause = f"PAM lacks a module: {one['module']} ({one['file']}, line {one['line']})"
        remedy = f"install it, or take the line away: gpuadmin run HOSTS -- cat {one['file']}"
        yield Cause("pam-module", cause, remedy, (), (one["module"],))


def keys(person: Person, facts: Facts) -> Iterator[Cause]:
    """Whether sshd has a key of somebody's that it can take."""
    found, name = facts.get("keys"), person.name
    if found is None or not person.registered or (facts.get("account") or {}).get("passwd") is None:
        return
    yield from list_refusals(name, found["settings"], (facts["account"] or {}).get("groups") or ())
    site = found["site"]
    home = (facts.get("home") or {}).get("keys") or []
    files = [*([site] if site["read"] else []), *found["elsewhere"], *home]
    good = [one for one in files if one["problem"] is None and any(key["problem"] is None for key in one["keys"])]
    bad = [line for one in files for line in _bad(one)]
    lines = (facts.get("sshd") or {}).get("lines", ())
    words = tuple(f"sshd: {line}" for line in lines[-4:])
    refusals = [line for line in lines if _REFUSED.search(line)]
    if refusals:
        cause = f"sshd refused {name} lately: {refusals[-1]}"
        yield Cause("sshd", cause, f"gpuadmin run HOSTS -- journalctl -t sshd -g {name}", words)
    add = f"gpuadmin change-user {name} --add-key FILE.pub"
    unread = next((one for one in home if one["problem"] not in (None, "is missing")), None)
    if person.keys and not site["read"]:
        cause = f"sshd does not read {name}'s keys of users.yml: AuthorizedKeysFile is another for them"
        seen = (f"authorizedkeysfile {found['settings'].get('authorizedkeysfile', '')}", *bad, *words)
        yield Cause("refused-key" if good else "no-key", cause, "gpuadmin provision --limit HOSTS", seen)
    elif not good:
        if found["settings"].get("authorizedkeyscommand", "none") != "none":
            return  # what that program says is not known
        if person.keys and (site["problem"] == "is missing" or (site["problem"] is None and not site["keys"])):
            yield Cause("no-key", f"{name}'s keys of users.yml are not there", _SYNC, (*bad, *words))
        elif person.keys:  # they are there, and could not be read, or are damaged
            yield Cause("no-key", f"{name} has no key that sshd takes: {bad[0]}", _SYNC, (*bad, *words))
        elif "home" in facts["unknown"]:
            return  # a note says that the keys in it could not be looked at; that does not mean that there are none
        else:
            why = bad[0] if bad else "none is there"
            yield Cause("no-key", f"{name} has no key that sshd takes: {why}", add, (*bad, *words))
    elif unread is not None:
        cause = f"sshd does not read the keys in {name}'s home: {_file(unread)}"
        yield Cause("refused-key", cause, add, (*bad, *words))
    elif any(key["problem"] for one in good for key in one["keys"]):
        cause = f"sshd does not take one of {name}'s keys: {bad[0]}"
        yield Cause("refused-key", cause, add, (*bad, *words))


def _file(file: Facts) -> str:
    """`/home/minji/.ssh/authorized_keys is missing`, or of the directory above it that is at fault."""
    problem = str(file["problem"])
    return problem if problem.startswith("/") else f"{file['path']} {problem}"


def _bad(file: Facts) -> Iterator[str]:
    if file["problem"] is not None:
        yield _file(file)
        return
    for key in file["keys"]:
        if key["problem"] is not None:
            kind = f" ({key['kind']})" if key["kind"] else ""
            yield f"line {key['line']} of {file['path']}{kind} {key['problem']}"


def list_refusals(name: str, settings: Mapping[str, Any], groups: Sequence[str]) -> Iterator[Cause]:
    """Why sshd's settings keep somebody out who is in ``groups``."""
    remedy = f"gpuadmin run HOSTS -- sshd -T -C user={name},host=x,addr=127.0.0.1"
    evidence = tuple(f"{key} {value}" for key, value in settings.items())

    def refused(cause: str) -> Cause:
        return Cause("not-allowed", cause, remedy, evidence)

    if settings.get("pubkeyauthentication") == "no":
        yield refused("sshd takes no keys (PubkeyAuthentication no)")
    allowed, denied = settings.get("allowusers", "").split(), settings.get("denyusers", "").split()
    out = _matches([one for one in denied if "@" not in one], name)  # who comes from where is not known
    if out or (allowed and not _matches([one.partition("@")[0] for one in allowed], name)):
        yield refused(f"sshd does not let {name} in ({'DenyUsers' if out else 'AllowUsers'})")
    wanted, unwanted = settings.get("allowgroups", "").split(), settings.get("denygroups", "").split()
    out = any(_matches(unwanted, one) for one in groups)
    if out or (wanted and groups and not any(_matches(wanted, one) for one in groups)):
        yield refused(f"sshd lets none of {name}'s groups in ({'DenyGroups' if out else 'AllowGroups'})")


def _matches(patterns: Sequence[str], name: str) -> bool:
    """Whether a list of patterns has a name (ssh_config(5), PATTERNS); `!` before one that matches decides."""

    def has(pattern: str) -> bool:
        parts = {"*": ".*", "?": "."}
        return re.fullmatch("".join(parts.get(one, re.escape(one)) for one in pattern), name) is not None

    return any(has(one) for one in patterns) and not any(has(one[1:]) for one in patterns if one[:1] == "!")

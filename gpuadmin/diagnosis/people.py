"""Whether somebody gets in: users.yml, the account on each host, sshd's settings, keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import Any

from gpuadmin.config.schema import Registry, User
from gpuadmin.diagnosis.finding import Finding

Facts = Mapping[str, Any]
#: What sshd and PAM write where somebody is turned away for a reason that is not a wrong key.
_REFUSED = re.compile(
    r"not allowed because|Authentication refused|Access denied|has expired|Too many auth", re.IGNORECASE
)
_EPOCH = date(1970, 1, 1)


def registered(name: str, user: User | None, registry: Registry, today: date) -> Iterator[Finding]:
    """What users.yml says: with this no host has to be asked."""
    if user is None:
        gone = next((one for one in registry.retired if one.name == name), None)
        if gone is not None:
            yield Finding("removed", f"{name}'s account was removed on {gone.removed}", f"gpuadmin add-user {name}")
        else:
            yield Finding("not-registered", f"nobody called {name} is in users.yml", f"gpuadmin add-user {name}")
        return
    if user.locked:
        yield Finding("locked", f"{name}'s account is locked in users.yml", f"gpuadmin unlock-user {name}")
    if user.expires is not None and user.expires < today:
        remedy = f"gpuadmin extend-user {name} --expires YYYY-MM-DD"
        yield Finding("expired", f"{name}'s account expired: it was valid until {user.expires}", remedy)


def account(name: str, user: User | None, host: str, facts: Facts) -> Iterator[Finding]:
    """The account on one host, of what it says of it."""
    found = facts.get("account")
    if found is None:
        return
    sync = "gpuadmin sync-users --limit HOSTS"
    entry, here = found["passwd"], (host,)
    if found["nologin"] is not None and facts["node"]:
        remedy = "gpuadmin run HOSTS -- rm -f /run/nologin /etc/nologin"
        yield Finding("nologin", f"nobody but root may log in: {found['nologin']}", remedy, (), here)
    if user is None:
        return
    if entry is None:
        others = f", and its uid {user.uid} is {found['others'][0]}'s" if found["others"] else ""
        yield Finding("account-missing", f"{name} has no account there{others}", sync, (), here)
        return
    if user.uid is not None and entry["uid"] != user.uid:
        cause = f"{name} has uid {entry['uid']} there, and {user.uid} in users.yml"
        yield Finding("other-uid", cause, "gpuadmin drift --limit HOSTS", (f"{host}: the home is {user.uid}'s",), here)
    if facts["node"]:
        yield from _enters(name, user, host, found, sync)


def _enters(name: str, user: User, host: str, found: Facts, sync: str) -> Iterator[Finding]:
    entry, shadow, here = found["passwd"], found["shadow"], (host,)
    if shadow is not None:
        last = shadow["expires"]
        if shadow["locked"] and not user.locked:
            yield Finding("locked-here", f"{name}'s account is locked there, and not in users.yml", sync, (), here)
        elif last is not None and last <= found["today"] and not user.locked:
            ended = _EPOCH + timedelta(days=last - 1)
            if user.expires is None or user.expires > ended:
                until = user.expires or "without an end"
                cause = f"{name}'s account expired there on {ended}; users.yml says: valid until {until}"
                yield Finding("expired-here", cause, sync, (f"{host}: /etc/shadow has day {last}",), here)
    if not entry["shell_runs"]:
        cause = f"{name}'s login shell {entry['shell']} cannot be run there"
        yield Finding("shell", cause, "gpuadmin provision --limit HOSTS", (f"{host}: no such program",), here)
    elif not entry["shell_lets_in"]:
        yield Finding("shell", f"{name}'s login shell is {entry['shell']}, which lets nobody in", sync, (), here)


def keys(name: str, user: User | None, host: str, facts: Facts) -> Iterator[Finding]:
    """Whether sshd has a key of somebody's that it can take."""
    found = facts.get("keys")
    if found is None or user is None or (facts.get("account") or {}).get("passwd") is None:
        return
    yield from _allowed(name, host, found["settings"], (facts["account"] or {}).get("groups") or ())
    files = [found["site"], *([facts["home"]["keys"]] if (facts.get("home") or {}).get("keys") else [])]
    good = [one for one in files if one["problem"] is None and any(key["problem"] is None for key in one["keys"])]
    bad = [f"{host}: {line}" for one in files for line in _bad(one)]
    lines = (facts.get("sshd") or {}).get("lines", ())
    words = tuple(f"{host}: sshd: {line}" for line in lines[-4:])
    refusals = [line for line in lines if _REFUSED.search(line)]
    if refusals:
        cause = f"sshd refused {name} lately: {refusals[-1]}"
        yield Finding("sshd", cause, f"gpuadmin run HOSTS -- journalctl -t sshd -g {name}", words, (host,))
    add = f"gpuadmin change-user {name} --add-key FILE.pub"
    if not good:
        why = bad[0].removeprefix(f"{host}: ") if bad and not user.keys else "none is there"
        if user.keys:
            cause = f"{name}'s keys of users.yml are not there"
            yield Finding("no-key", cause, "gpuadmin sync-users --limit HOSTS", (*bad, *words), (host,))
        else:
            yield Finding("no-key", f"{name} has no key that sshd takes: {why}", add, (*bad, *words), (host,))
    elif len(good) < len(files) and files[-1]["problem"] not in (None, "is missing"):
        cause = f"sshd does not read the keys in {name}'s home: {_file(files[-1])}"
        yield Finding("refused-key", cause, add, (*bad, *words), (host,))
    elif any(key["problem"] for one in good for key in one["keys"]):
        cause = f"sshd does not take one of {name}'s keys: {bad[0].removeprefix(f'{host}: ')}"
        yield Finding("refused-key", cause, add, (*bad, *words), (host,))


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


def _allowed(name: str, host: str, settings: Mapping[str, str], groups: Any) -> Iterator[Finding]:
    remedy = f"gpuadmin run HOSTS -- sshd -T -C user={name},host=x,addr=127.0.0.1"

    def refused(cause: str) -> Finding:
        return Finding("not-allowed", cause, remedy, tuple(f"{host}: {k} {v}" for k, v in settings.items()), (host,))

    if settings.get("pubkeyauthentication") == "no":
        yield refused("sshd takes no keys (PubkeyAuthentication no)")
    # patterns are sshd's to judge; a plain name is what people write
    allowed, denied = settings.get("allowusers", "").split(), settings.get("denyusers", "").split()
    if name in denied or (allowed and not any("*" in one or "@" in one for one in allowed) and name not in allowed):
        yield refused(f"sshd lets {name} not in ({'DenyUsers' if name in denied else 'AllowUsers'})")
    wanted, unwanted = settings.get("allowgroups", "").split(), settings.get("denygroups", "").split()
    if set(unwanted) & set(groups) or (wanted and groups and not any("*" in one for one in wanted)
                                       and not set(wanted) & set(groups)):  # fmt: skip
        yield refused(f"sshd lets nobody of {name}'s groups in ({'DenyGroups' if unwanted else 'AllowGroups'})")

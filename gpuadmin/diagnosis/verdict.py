"""A diagnosis: the findings of all hosts, the most decisive first, and the sentence for when there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from gpuadmin.common.text import counted
from gpuadmin.config.schema import Registry, User
from gpuadmin.diagnosis.finding import Finding, Severity, ordered
from gpuadmin.diagnosis.looked import right, tried
from gpuadmin.results import UNRESOLVED, way_out
from gpuadmin.similar import did_you_mean

_NO_SERVICE = "install systemd-timesyncd or chrony there, then: gpuadmin run HOSTS -- timedatectl set-ntp true"
SKEW = 30.0  # seconds: with more, Kerberos, TLS and make go wrong; what ssh and Ansible take is far below


@dataclass(frozen=True)
class Asked:
    """What is asked about. `name`: None if only hosts are. `storage` serves the homes from `export`.

    `directory`: whether accounts come from a directory; who is not in users.yml may have one all the same.
    `no_trial`: why the admin wants no session tried, or None.
    """

    name: str | None
    registry: Registry
    today: date
    storage: str
    export: str
    directory: bool = False
    no_trial: str | None = None

    @property
    def untried(self) -> str | None:
        """Why not to try a session of the person's; None: try one. `no_trial`: the admin's own reason."""
        user = self.user
        if self.no_trial is not None or user is None:
            return self.no_trial or "users.yml does not have them"
        if user.locked or (user.expires is not None and user.expires < self.today):  # guard: who is locked is not tried
            return "the account is locked" if user.locked else "the account has expired"
        return None

    @property
    def user(self) -> User | None:
        """The person, as far as users.yml has them."""
        known = next((one for one in self.registry.users if one.name == self.name), None)
        return User(name=self.name) if known is None and self.directory and self.name is not None else known

    @property
    def person(self) -> dict[str, Any]:
        """The person, as hosts get them; nothing if only hosts are asked about."""
        user = self.user
        if self.name is None or user is None:
            return {} if self.name is None else {"name": self.name, "registered": False}
        known = {
            "name": self.name,
            "registered": True,
            "locked": user.locked,
            "keys": bool(user.keys),
            "docker": user.docker,
        }
        if user.uid is not None:
            known["uid"] = user.uid
        return known if user.expires is None else {**known, "expires": user.expires.isoformat()}


def verdict(
    asked: Asked, known: Mapping[str, Mapping[str, Any]], silent: Mapping[str, str], times: Mapping[str, float],
    drift: Mapping[str, str] | None = None,
) -> list[Finding]:  # fmt: skip
    """Given what hosts answered, and why others did not, return all findings in order; the first is the cause.

    `times`: host → seconds since 1970 when it answered. `drift`: hosts that differed from the site, and when.
    """
    found: list[Finding] = []
    if asked.name is not None:
        found += registered(asked)
    for host, why in silent.items():
        remedy = "look at its power and its network; then: gpuadmin status"
        if UNRESOLVED in why:
            remedy = "put its address there (ansible_host), or correct its name; then: gpuadmin status"
        elif ways := way_out({name: reason for name, reason in silent.items() if reason == why}):
            remedy = f"{ways}; then: gpuadmin status"
        elif "(connection refused)" in why:
            remedy = "it runs, and its sshd does not: at its console, systemctl status ssh sshd; then: gpuadmin status"
        elif "; the host said: " in why:  # pam_nologin(8), most likely, which lets only root in
            remedy = "log in as root (at its console, or by ssh) and look for /etc/nologin and /run/nologin"
        found.append(Finding("host-silent", f"it cannot be asked: {why}", remedy, (), (host,)))
    for host, facts in known.items():
        found += _of_host(asked, host, facts, times[host])
    for host, when in (drift or {}).items():
        cause = f"it differed from the site on {when}"
        found.append(Finding("drift", cause, "gpuadmin drift --limit HOSTS", (), (host,)))
    return ordered(found)


def _of_host(asked: Asked, host: str, facts: Mapping[str, Any], now: float) -> Iterator[Finding]:
    clock = facts.get("clock")
    off = 0.0 if clock is None else clock["seconds"] - now
    if clock is not None and abs(off) > SKEW:
        cause = f"the clock is {counted(round(abs(off)), 'second')} {'ahead' if off > 0 else 'behind'}"
        service = clock.get("service")
        fix = f"gpuadmin run HOSTS -- systemctl restart {service}" if service else _NO_SERVICE
        yield Finding("clock", cause, fix, (f"{host}: compared with this machine",), (host,))
    for one in facts["causes"]:
        if one["code"] != "clock-free" or abs(off) <= SKEW:
            yield Finding.of(host, one, asked.storage, asked.export)


def registered(asked: Asked) -> Iterator[Finding]:
    """What users.yml says of the person: with this no host has to be asked."""
    name, user = asked.name, asked.user
    if user is None:
        gone = next((one for one in asked.registry.retired if one.name == name), None)
        if gone is not None:
            yield Finding("removed", f"{name}'s account was removed on {gone.removed}", f"gpuadmin add-user {name}")
        else:
            close = did_you_mean(str(name), (one.name for one in asked.registry.users))
            remedy = f"{close} Otherwise: gpuadmin add-user {name}" if close else f"gpuadmin add-user {name}"
            yield Finding("not-registered", f"nobody called {name} is in users.yml", remedy)
        return
    if user.locked:
        yield Finding("locked", f"{name}'s account is locked in users.yml", f"gpuadmin unlock-user {name}")
    if user.expires is not None and user.expires < asked.today:
        remedy = f"gpuadmin extend-user {name} --expires YYYY-MM-DD"
        yield Finding("expired", f"{name}'s account expired: it was valid until {user.expires}", remedy)


def bad(found: list[Finding]) -> bool:
    """Whether something keeps people from working, or soon will."""
    return bool(found) and found[0].severity in (Severity.STOPS, Severity.HINDERS)


def first_line(asked: Asked, found: list[Finding], known: Mapping[str, Any]) -> str:
    """The verdict in one line: the cause; where none was seen, how much was looked at, and what is left."""
    if bad(found):
        return found[0].line
    number, hosts = len(right(asked.name, known, found)), ", ".join(known) or "no host"
    line = f"these {counted(number, 'thing')} were checked on {hosts} and are fine"
    unknown = sum(1 for one in found if one.severity is Severity.UNKNOWN)
    notes = sum(1 for one in found if one.severity is Severity.NOTE)
    if tried(known):
        line += f"; {asked.name} gets a session on {', '.join(tried(known))}"
    line += f"; {counted(unknown, 'part')} could not be looked at" if unknown else ""
    return line + (f"; {counted(notes, 'note')} below" if notes else "")

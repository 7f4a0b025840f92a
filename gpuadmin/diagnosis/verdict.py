"""A diagnosis: the findings of all hosts, the most decisive first, and the sentence for when there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from gpuadmin.config.schema import Registry, User
from gpuadmin.diagnosis.finding import Finding, Severity, ordered
from gpuadmin.text import counted

_NO_SERVICE = "install systemd-timesyncd or chrony there, then: gpuadmin run HOSTS -- timedatectl set-ntp true"
SKEW = 30.0  # seconds: with more, Kerberos, TLS and make go wrong; what ssh and Ansible take is far below


@dataclass(frozen=True)
class Asked:
    """What is asked about. `name`: None where only hosts are. `storage` serves the homes from `export`.

    `directory`: whether accounts come from a directory; who is not in users.yml may have one all the same.
    """

    name: str | None
    registry: Registry
    today: date
    storage: str
    export: str
    directory: bool = False

    @property
    def user(self) -> User | None:
        """The person, as far as users.yml has them."""
        known = next((one for one in self.registry.users if one.name == self.name), None)
        return User(name=self.name) if known is None and self.directory and self.name is not None else known

    @property
    def person(self) -> dict[str, Any]:
        """The person as hosts are told of them; nothing where only hosts are asked about."""
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
        if "; the host said: " in why:  # pam_nologin(8), most likely, which lets only root in
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
            yield Finding("not-registered", f"nobody called {name} is in users.yml", f"gpuadmin add-user {name}")
        return
    if user.locked:
        yield Finding("locked", f"{name}'s account is locked in users.yml", f"gpuadmin unlock-user {name}")
    if user.expires is not None and user.expires < asked.today:
        remedy = f"gpuadmin extend-user {name} --expires YYYY-MM-DD"
        yield Finding("expired", f"{name}'s account expired: it was valid until {user.expires}", remedy)


def first_line(asked: Asked, found: list[Finding], known: Mapping[str, Any]) -> str:
    """The verdict in one line: the cause, or that none was seen and what then cannot be it."""
    if found and found[0].severity in (Severity.STOPS, Severity.HINDERS):
        return found[0].line
    who = f"{asked.name} can log in" if asked.name is not None else "they work"
    hosts = ", ".join(known) or "no host"
    rest = f" ({sum(1 for one in found if one.severity is Severity.UNKNOWN)} parts are not known)"
    return f"nothing is wrong on {hosts} as far as gpuadmin sees: {who}" + (
        rest if any(one.severity is Severity.UNKNOWN for one in found) else ""
    )

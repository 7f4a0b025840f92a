"""A diagnosis: the findings of all hosts, the most decisive first, and the sentence for when there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from gpuadmin.config.schema import Registry, User
from gpuadmin.diagnosis import homes, machine, people, running
from gpuadmin.diagnosis.finding import Finding, Severity, ordered

#: Parts whose failure another finding explains, by its code.
_EXPLAINED = {
    "homes-late": {"homes", "home"}, "homes-stale": {"homes", "home"}, "homes-not-mounted": {"homes", "home"},
    "docker-daemon": {"containers"}, "names": {"names"},
}  # fmt: skip


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


def verdict(
    asked: Asked, known: Mapping[str, Mapping[str, Any]], silent: Mapping[str, str], times: Mapping[str, float],
    drift: Mapping[str, str] | None = None,
) -> list[Finding]:  # fmt: skip
    """Given what hosts answered, and why others did not, return all findings in order; the first is the cause.

    `times`: host → seconds since 1970 when it answered. `drift`: hosts that differed from the site, and when.
    """
    found: list[Finding] = []
    if asked.name is not None:
        found += people.registered(asked.name, asked.user, asked.registry, asked.today)
    for host, why in silent.items():
        remedy = "look at its power and its network; then: gpuadmin status"
        found.append(Finding("host-silent", f"it cannot be asked: {why}", remedy, (), (host,)))
    for host, facts in known.items():
        found += _of_host(asked, host, facts, times[host])
    for host, when in (drift or {}).items():
        cause = f"it differed from the site on {when}"
        found.append(Finding("drift", cause, "gpuadmin drift --limit HOSTS", (), (host,)))
    return ordered(found)


def _of_host(asked: Asked, host: str, facts: Mapping[str, Any], now: float) -> list[Finding]:
    name = asked.name
    found: list[Finding] = list(homes.server(host, facts))
    if name is not None:
        user = asked.user
        found += people.account(name, user, host, facts)
        found += homes.home(name, user, host, facts, asked.storage, asked.export)
        if facts["node"]:
            found += people.keys(name, user, host, facts)
            found += running.sessions(name, host, facts)
            found += running.docker(name, user, host, facts)
            found += running.containers(name, host, facts)
    found += machine.machine(host, facts, now)
    explained = {part for one in found for part in _EXPLAINED.get(one.code, ())}
    return [*found, *machine.unknown(host, facts, frozenset(explained))]


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

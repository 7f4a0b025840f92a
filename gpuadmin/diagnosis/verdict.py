"""A diagnosis: the causes of all hosts, the most decisive first, and the sentence for when there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Any

from gpuadmin.common.causes.cause import HINDERS, NOTE, STOPS, UNKNOWN, Cause
from gpuadmin.common.causes.judge import CAUSES
from gpuadmin.common.text import counted
from gpuadmin.config.schema import Registry, User
from gpuadmin.diagnosis.finding import order_causes, read_cause, weigh_cause
from gpuadmin.diagnosis.looked import list_sound_things, list_tried_hosts
from gpuadmin.results import UNRESOLVED, way_out
from gpuadmin.similar import did_you_mean

SKEW = 30.0  # seconds: with more, Kerberos, TLS and make go wrong; what ssh and Ansible take is far below


@dataclass(frozen=True)
class Asked:
    """The question: a person, or hosts alone. `name`: None if only hosts are. `storage` serves the homes from `export`.

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
        """The reason not to try a session of the person's; None: try one. `no_trial`: the admin's own reason."""
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
            "name": self.name, "registered": True, "locked": user.locked, "keys": bool(user.keys),
            "docker": user.docker, "uid": user.uid, "expires": user.expires and user.expires.isoformat(),
        }  # fmt: skip
        return {key: value for key, value in known.items() if value is not None}


def verdict(
    asked: Asked, known: Mapping[str, Mapping[str, Any]], silent: Mapping[str, str], times: Mapping[str, float],
    drift: Mapping[str, str] | None = None,
) -> list[Cause]:  # fmt: skip
    """Given what hosts answered, and why others did not, return all causes in order; the first is the one to mend.

    `times`: host → seconds since 1970 when it answered. `drift`: hosts that differed from the site, and when.
    """
    found = [*judge_registry(asked)] if asked.name is not None else []
    for host, why in silent.items():
        way = way_out({name: reason for name, reason in silent.items() if reason == why})
        found.append(replace(CAUSES.find(_name_silence(why, way), why=why, way=way), hosts=(host,)))
    for host, facts in known.items():
        found += _judge_host(asked, host, facts, times[host])
    for host, when in (drift or {}).items():
        cause = CAUSES.find("drift", words=f"it differed from the site on {when}")
        found.append(replace(cause, hosts=(host,)))
    return order_causes(found)


def _name_silence(why: str, way: str | None) -> str:
    """Given why a host is silent, and a way out that is known for that, return the row that has the remedy."""
    if UNRESOLVED in why:
        return "host-silent/name"
    if way:
        return "host-silent/way"
    if "(connection refused)" in why:
        return "host-silent/sshd"
    # pam_nologin(8), most likely, which lets only root in
    return "host-silent/nologin" if "; the host said: " in why else "host-silent"


def _judge_host(asked: Asked, host: str, facts: Mapping[str, Any], now: float) -> Iterator[Cause]:
    """The causes that a host found by itself, and how far its clock is off."""
    clock = facts.get("clock")
    off = 0.0 if clock is None else clock["seconds"] - now
    if clock is not None and abs(off) > SKEW:
        words = f"{counted(round(abs(off)), 'second')} {'ahead' if off > 0 else 'behind'}"
        service = clock.get("service")
        seen = f"{host}: compared with this machine"
        cause = CAUSES.find("clock" if service else "clock/free", seen, off=words, service=service)
        yield replace(cause, hosts=(host,))
    for one in facts["causes"]:
        if one["code"] != "clock-free" or abs(off) <= SKEW:
            yield read_cause(host, one, asked.storage, asked.export)


def judge_registry(asked: Asked) -> Iterator[Cause]:
    """The causes that lie in users.yml: with these no host has to be asked."""
    user, tell = asked.user, partial(CAUSES.find, name=asked.name)
    if user is None:
        gone = next((one for one in asked.registry.retired if one.name == asked.name), None)
        close = did_you_mean(str(asked.name), (one.name for one in asked.registry.users))
        if gone is not None:
            yield tell("removed", day=gone.removed)
        else:
            yield tell("not-registered/close" if close else "not-registered", close=close)
        return
    if user.locked:
        yield tell("locked")
    if user.expires is not None and user.expires < asked.today:
        yield tell("expired", day=user.expires)


def is_bad(found: list[Cause]) -> bool:
    """Whether something keeps people from working, or soon will."""
    return bool(found) and weigh_cause(found[0]) in (STOPS, HINDERS)


def first_line(asked: Asked, found: list[Cause], known: Mapping[str, Any]) -> str:
    """The verdict in one line: the cause; where none was seen, how much was looked at, and what is left."""
    if is_bad(found):
        return found[0].line
    number, hosts = len(list_sound_things(asked.name, known, found)), ", ".join(known) or "no host"
    line = f"these {counted(number, 'thing')} were checked on {hosts} and are fine"
    unknown = sum(1 for one in found if weigh_cause(one) == UNKNOWN)
    notes = sum(1 for one in found if weigh_cause(one) == NOTE)
    if list_tried_hosts(known):
        line += f"; {asked.name} gets a session on {', '.join(list_tried_hosts(known))}"
    line += f"; {counted(unknown, 'part')} could not be looked at" if unknown else ""
    return line + (f"; {counted(notes, 'note')} below" if notes else "")

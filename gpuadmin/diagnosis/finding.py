"""What a diagnosis finds. The order of the table below decides which cause comes first.

Most causes are found on their host, by the node's code in module_utils/causes; those that need the site or the
controller's clock, by verdict.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """`stops`: it does not work at all. `hinders`: it works badly, or will not for long. `note`: worth knowing."""

    STOPS = "stops"
    HINDERS = "hinders"
    UNKNOWN = "unknown"
    NOTE = "note"


_STOPS = (
    "not-registered", "removed", "locked", "expired", "account-missing", "other-uid", "locked-here", "expired-here",
    "host-silent", "nologin", "password-aged", "pam-account", "pam-module", "shell", "not-allowed",
    "homes-late", "homes-stale", "homes-not-mounted",
    "no-key", "home-missing", "home-kind", "home-owner", "home-passwd", "home-mode", "homes-full", "homes-inodes",
    "homes-read-only", "amount-full", "amount-home-full", "processes", "tasks", "manager", "tmp", "quota",
    "session-pam", "session-home", "session-tmp", "session-process", "session-command", "session-login",
    # a cause before what follows from it: without newuidmap no daemon runs
    "docker-missing", "docker-disk", "docker-subids", "docker-mappers", "docker-masked",
    "docker-data", "docker-daemon", "docker-socket", "session-docker", "gpu-versions", "gpu-driver", "gpu-silent",
    "gpu-broken", "disk-full", "disk-inodes", "disk-read-only", "names",
)  # fmt: skip
_HINDERS = (
    "amount-over", "amount-docker-over", "home-others", "session-noise", "session-late", "session-cut", "dns",
    "gpu-lost", "gpu-cdi", "gpu-full", "gpu-grant", "container-oom", "container-gpu", "container-killed",
    "container-architecture", "container-program", "memory-limit", "memory", "memory-kills", "clock",
    "trial", "homes-slow", "refused-key",
    "gpu-kernels",  # what does not work now comes before what will not after a boot
)  # fmt: skip
_NOTES = (
    "docker-not-given",  # the site wants it so
    "sshd", "docker-answer", "units", "reboot", "clock-free", "home-keys", "drift", "pending", "gpu-worse", "gpu-held",
    "gpu-granted", "container",
)  # fmt: skip
#: Code → how bad it is, in the order in which causes are named: who is locked out does not care what Docker lacks.
CODES: Mapping[str, Severity] = {
    **dict.fromkeys(_STOPS, Severity.STOPS),
    **dict.fromkeys(_HINDERS, Severity.HINDERS),
    "unknown": Severity.UNKNOWN,
    **dict.fromkeys(_NOTES, Severity.NOTE),
}
_PLACE = {code: place for place, code in enumerate(CODES)}


@dataclass(frozen=True)
class Finding:
    """`cause`: a sentence without its host. `remedy`: what to type or to do, with HOSTS for where it holds.

    `evidence`: where it was seen, in lines. `hosts`: where it holds; none where it holds for the site.
    """

    code: str
    cause: str
    remedy: str
    evidence: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    @classmethod
    def of(cls, host: str, cause: Mapping[str, Any], storage: str, export: str) -> Finding:
        """What a host found by itself. Its storage host and the directory of the homes there are filled in."""
        code = str(cause["code"]) if cause["code"] in CODES else "unknown"
        remedy = str(cause["remedy"]).replace("STORAGE", storage).replace("EXPORT", export)
        evidence = tuple(f"{host}: {line}" for line in cause["evidence"])
        return cls(code, str(cause["cause"]), remedy, evidence, (host,))

    @property
    def severity(self) -> Severity:
        return CODES[self.code]

    @property
    def line(self) -> str:
        """The finding in one line: `node1, node2: the account is locked`."""
        return f"{', '.join(self.hosts)}: {self.cause}" if self.hosts else self.cause

    @property
    def todo(self) -> str:
        """The remedy, with the hosts that it is for."""
        return self.remedy.replace("HOSTS", ",".join(self.hosts))

    def document(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": str(self.severity),
            "cause": self.cause,
            "remedy": self.todo,
            "evidence": list(self.evidence),
            "hosts": list(self.hosts),
        }


def ordered(found: Iterable[Finding]) -> list[Finding]:
    """The most decisive first; what is the same on several hosts is one finding that names them all."""
    merged: dict[tuple[str, str], Finding] = {}
    for one in found:
        key = (one.code, one.cause)
        known = merged.get(key)
        if known is None:
            merged[key] = one
        else:
            hosts = (*known.hosts, *(host for host in one.hosts if host not in known.hosts))
            merged[key] = replace(known, hosts=hosts, evidence=(*known.evidence, *one.evidence))
    # where it holds for all, it is more likely the cause than where it holds for one
    return sorted(merged.values(), key=lambda one: (_PLACE[one.code], -len(one.hosts)))

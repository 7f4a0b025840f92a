"""What a diagnosis looked at and found right, and what it did not look at. It claims nothing about the rest. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuadmin.diagnosis.finding import Finding


@dataclass(frozen=True)
class Thing:
    """`words`: what it is. `part`: of a host's facts; None: of the site's. `codes`: the findings that it may have.

    `step`: of a session that was tried, the one that it is.
    """

    words: str
    part: str | None
    codes: tuple[str, ...]
    step: str | None = None


_PAM = ("password-aged", "pam-account")
#: What follows from what PAM says of an account is not said (causes/judge.py), and is not fine either.
_FOLLOWS = ("manager", "session-pam")
THINGS = (
    Thing("users.yml", None, ("not-registered", "removed", "locked", "expired")),
    Thing("account", "account", ("account-missing", "other-uid", "locked-here", "expired-here")),
    Thing("log-ins for all (nologin)", "account", ("nologin",)),
    Thing("login shell", "account", ("shell",)),
    Thing("keys", "keys", ("no-key", "refused-key", "home-keys")),
    Thing("sshd's settings", "keys", ("not-allowed",)),
    Thing("what sshd said of them", "sshd", ("sshd",)),
    Thing("PAM's modules", "pam", ("pam-module",)),
    Thing("PAM's rules for accounts", "pam_account", _PAM),
    Thing("limit of processes", "sessions", ("processes", "tasks")),
    Thing("user manager", "sessions", ("manager",)),
    Thing("kills for memory", "sessions", ("memory-limit",)),
    Thing("home", "home", ("home-missing", "home-kind", "home-owner", "home-mode", "home-passwd", "home-others")),
    Thing("what homes are on", "homes", (
        "homes-late", "homes-stale", "homes-not-mounted", "homes-full", "homes-inodes", "homes-read-only", "homes-slow",
    )),
    Thing("what they may have of disks", "amounts", (
        "amount-full", "amount-home-full", "amount-over", "amount-docker-over",
    )),
    Thing("Docker's ids, place and units", "docker", (
        "docker-not-given", "docker-missing", "docker-disk", "docker-subids", "docker-mappers", "docker-masked",
        "docker-data", "docker-socket",
    )),
    Thing("Docker's daemon and containers", "containers", (
        "docker-daemon", "docker-answer", "container-oom", "container-gpu", "container-killed",
        "container-architecture", "container-program", "container",
    )),
    Thing("a session by sshd's rules of PAM", "trial", ("session-pam", "session-cut")),
    Thing("a file in the home", "trial", ("session-home", "quota"), "home"),
    Thing("a file in /tmp", "trial", ("session-tmp",), "tmp"),
    Thing("a process", "trial", ("session-process",), "process"),
    Thing("the shell for a command", "trial", ("session-command", "session-noise", "session-late"), "command"),
    Thing("the shell at log-in", "trial", ("session-login",), "login"),
    Thing("Docker's socket", "trial", ("session-docker",), "docker"),
    Thing("GPUs", "gpus", (
        "gpu-versions", "gpu-driver", "gpu-silent", "gpu-broken", "gpu-lost", "gpu-cdi", "gpu-full", "gpu-worse",
        "gpu-held",
    )),
    Thing("grants of GPUs", "granted", ("gpu-grant", "gpu-granted")),
    Thing("GPU drivers of all kernels", "kernels", ("gpu-kernels",)),
    Thing("disks", "disks", ("disk-full", "disk-inodes", "disk-read-only")),
    Thing("/tmp and /var/tmp", "temporary", ("tmp",)),
    Thing("memory", "memory", ("memory", "memory-kills")),
    Thing("clock", "clock", ("clock", "clock-free")),
    Thing("the storage host's name", "names", ("names",)),
    Thing("name servers", "dns", ("dns",)),
    Thing("units", "units", ("units",)),
    Thing("waiting reboots", "reboot", ("reboot",)),
    Thing("image", "image", ("trial", "drift")),
)  # fmt: skip
#: The parts that are about one person.
OF_A_PERSON = ("account", "keys", "pam_account", "sshd", "sessions", "home", "amounts", "docker", "containers", "trial")
#: What no diagnosis sees.
NEVER = (
    "the way from their own machine: network, firewall, jump host, ssh client",
    "log-ins by password, certificate or a second factor, and ~/.ssh/rc",
    "what else is in the home: programs, environments, settings",
    "whether a GPU computes correctly",
)
NEVER_HOSTS = (
    "people's accounts, homes and Docker: gpuadmin diagnose NAME",
    "what somebody changed by hand: gpuadmin drift",
    "the network between hosts, and whether a GPU computes correctly",
)


def right(name: str | None, known: Mapping[str, Mapping[str, Any]], found: Iterable[Finding]) -> list[str]:
    """Things that were looked at on every host that has them, and that have no finding.

    For somebody whom users.yml does not know, nothing counts as fine: nothing says what it should be.
    """
    codes = {one.code for one in found}
    codes |= set(_FOLLOWS) if codes & set(_PAM) else set()  # guard: what follows from a refusal of PAM's is not right
    if not known:
        return []
    # guard: nothing is right of somebody whom nobody knows -> ()
    nobodys = OF_A_PERSON if "not-registered" in codes else ()
    return [
        one.words for one in THINGS
        if not codes & set(one.codes)
        and one.part not in nobodys
        and (name is not None if one.part is None else _everywhere(one, known))
    ]  # fmt: skip


def _everywhere(thing: Thing, known: Mapping[str, Mapping[str, Any]]) -> bool:
    answers = [facts.get(str(thing.part)) for facts in known.values()]
    # guard: what was not looked at is not called right
    if any(thing.part in facts["unknown"] for facts in known.values()):
        return False
    seen = [one for one in answers if one is not None]
    if thing.step is not None:
        seen = [one for one in seen if one["steps"].get(thing.step, {}).get("code") == ""]
        return bool(seen) and (thing.step == "docker" or len(seen) == sum(one is not None for one in answers))
    if thing.part == "containers":
        return any(one["asked"] for one in seen)
    if thing.codes == ("manager",):  # one that does not run is listed as not looked at
        return any(one.get("manager") != "inactive" for one in seen)
    return bool(seen)


def not_looked_at(
    name: str | None, known: Mapping[str, Mapping[str, Any]], silent: Mapping[str, str], untried: str | None
) -> Iterator[str]:
    """What was not looked at, as lines. `untried`: why no session was tried, or None."""
    for host, why in silent.items():
        yield f"{host}: {why}"
    if name is not None:
        if untried is not None:
            yield f"a session of {name}'s: {untried}"
        elsewhere = [host for host, facts in known.items() if not facts["node"]]
        if elsewhere:
            yield f"log-ins on {', '.join(elsewhere)}: people log in on nodes"
        idle = [host for host, facts in known.items() if (facts.get("sessions") or {}).get("manager") == "inactive"]
        if idle:
            yield f"the user manager on {', '.join(idle)}: it does not run, and would start what {name} enabled"
        asleep = [host for host, facts in known.items() if not (facts.get("containers") or {"asked": True})["asked"]]
        if asleep:
            yield f"Docker's daemon and containers on {', '.join(asleep)}: none runs, and asking would start it"
    for host, facts in known.items():
        for part, why in sorted(facts["unknown"].items()):
            yield f"{host}: {part}: {why}"
    yield from NEVER if name is not None else NEVER_HOSTS


def tried(known: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Hosts on which a session was begun and came to its end."""
    return [host for host, facts in known.items() if (facts.get("trial") or {}).get("done")]

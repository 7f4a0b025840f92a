"""All parts of a diagnosis, each in a process of its own with a deadline: only one that hangs is unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..bounded import look_at
from ..each import Failed, each
from . import account, amounts, dns, docker, gpus, granted, home, host, pam, pam_account, sessions, trial
from .subject import Subject

SECONDS = 3.0  # the whole answer must be there within five, Ansible's own time included

Part = Callable[[Subject], object]
#: Parts that a host is asked about itself; `homes` and `mount` are of whoever has a home.
HOST: Mapping[str, Part] = {
    "mount": home.mount,
    "homes": home.homes,
    "memory": host.memory,
    "disks": host.disks,
    "clock": host.clock,
    "names": host.names,
    "dns": dns.dns,
    "temporary": host.temporary,
    "units": host.units,
    "reboot": host.reboot,
    "image": host.image,
    "gpus": gpus.gpus,
    "kernels": gpus.kernels,
    "granted": granted.granted,
}
#: Parts that a host is asked about a person, where people log in.
PERSON: Mapping[str, Part] = {
    "account": account.account,
    "keys": account.sshd_keys,
    "pam": pam.pam,
    "pam_account": pam_account.pam_account,
    "sshd": account.sshd_words,
    "home": home.home,
    "amounts": amounts.own,
    "sessions": sessions.sessions,
    "docker": docker.docker,
    "containers": docker.containers,
    "trial": trial.trial,
}
#: Parts that a host is asked about a person where nobody logs in: the storage host has the home.
ELSEWHERE = ("account", "home", "amounts")
#: Parts that only root may look at.
ROOTS = ("keys", "pam_account", "sshd", "units", "image", "kernels")


def parts(subject: Subject) -> dict[str, Part]:
    """Return the parts that a host is asked for, by name."""
    found = dict(HOST)
    if not subject.node:
        del found["gpus"], found["kernels"], found["image"], found["granted"]
    if subject.name is not None:
        found.update({name: part for name, part in PERSON.items() if subject.node or name in ELSEWHERE})
    if not subject.trial:
        found.pop("trial", None)
    if subject.own:
        found = {name: part for name, part in found.items() if name not in ROOTS}
    return found


def collect(subject: Subject, *, seconds: float = SECONDS, chosen: Mapping[str, Part] | None = None) -> dict[str, Any]:
    """The facts by part, and ``unknown``: part → why it could not be looked at. ``late``: those that did not answer."""
    wanted = parts(subject) if chosen is None else dict(chosen)
    facts: dict[str, Any] = {"node": subject.node, "unknown": {}, "late": []}
    look = partial(look_at, parts=wanted, of=subject)

    def bound(name: str) -> float:
        return max(seconds, trial.LONGEST) if name == "trial" else seconds

    for name, found in each(look, list(wanted), len(wanted), bound, grace=0):
        if not isinstance(found, Failed):
            facts[name] = found
            continue
        facts["unknown"][name] = found.why
        if found.late:
            facts["late"].append(name)
    facts["late"].sort()
    return facts

"""The things that a diagnosis looked at and found right, and those that it did not look at. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpuadmin.common.causes.cause import Cause, Thing
from gpuadmin.common.causes.judge import CAUSES, FOLLOWS, REFUSALS

#: Thing → the codes of the causes that it may have; it is fine without them.
THINGS: Mapping[Thing, frozenset[str]] = {
    thing: frozenset(code for code, row in CAUSES.items() if row.thing == thing)
    for thing in dict.fromkeys(row.thing for row in CAUSES.values())
    if thing is not None
}
#: The parts that are about one person.
OF_A_PERSON = ("account", "keys", "pam_account", "sshd", "sessions", "home", "amounts", "docker", "containers", "trial")
#: Things that no diagnosis sees.
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


def list_sound_things(name: str | None, known: Mapping[str, Mapping[str, Any]], found: Iterable[Cause]) -> list[str]:
    """Return the things that were looked at on every host that has them, and that no cause was found in.

    For somebody whom users.yml does not know, nothing counts as fine: nothing says what it should be.
    """
    codes = {one.code for one in found}
    codes |= FOLLOWS if codes & REFUSALS else set()  # guard: what follows from a refusal of PAM's is not right
    if not known:
        return []
    # guard: nothing is right of somebody whom nobody knows -> ()
    nobodys = OF_A_PERSON if "not-registered" in codes else ()
    return [
        one.words for one, its_codes in THINGS.items()
        if not codes & its_codes
        and one.part not in nobodys
        and (name is not None if one.part is None else _was_looked_at(one, known))
    ]  # fmt: skip


def _was_looked_at(thing: Thing, known: Mapping[str, Mapping[str, Any]]) -> bool:
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
    if THINGS[thing] == {"manager"}:  # one that does not run is listed as not looked at
        return any(one.get("manager") != "inactive" for one in seen)
    return bool(seen)


def list_unseen(
    name: str | None, known: Mapping[str, Mapping[str, Any]], silent: Mapping[str, str], untried: str | None
) -> Iterator[str]:
    """A line for each thing that was not looked at. `untried`: why no session was tried, or None."""
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


def list_tried_hosts(known: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the hosts on which a session was begun and came to its end."""
    return [host for host, facts in known.items() if (facts.get("trial") or {}).get("done")]

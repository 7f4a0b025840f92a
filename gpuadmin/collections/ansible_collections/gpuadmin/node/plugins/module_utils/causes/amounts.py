"""Whether somebody has all that they may have of a disk."""

from __future__ import annotations

from collections.abc import Iterator

from gpuadmin.common.text import size_words

from .cause import Cause, Facts, Person

#: Percent of an amount that is held from which on nothing of any size can be written.
FULL = 99
_WHAT = {"home": "home", "docker": "Docker data"}
_ROOM = {
    "home": "gpuadmin-me disk says what is large; or",
    "docker": "docker system prune; where their daemon no longer starts,",
}
_ROOM = {
    "home": "gpuadmin-me disk says what is large; or",
    "docker": "docker system prune; where their daemon no longer starts,",
}


def amounts(person: Person, facts: Facts) -> Iterator[Cause]:
    """`amount-full`, `amount-home-full`: the kernel refuses more. `amount-over`: nothing does, they were told."""
    name = person.name
    for place, used in (facts.get("amounts") or {}).items():
        has, most = size_words(used["bytes"]), size_words(used["most"])
        values, what = (has, most), f"{name}'s {_WHAT[place]}"
        if used["held"] and used["bytes"] * 100 >= used["most"] * FULL:
            cause = f"{what} is full: {has} of {most}; what writes there fails (Disk quota exceeded)"
            remedy = f"{name}: {_ROOM[place]} give them more (limits.people)"
            yield Cause("amount-full" if place == "docker" else "amount-home-full", cause, remedy, (), values)
        elif not used["held"] and used["bytes"] >= used["most"]:
            cause = f"{what} is more than they may have: {has} of {most}; nothing refuses more"
            remedy = f"{name} deletes something: gpuadmin-me disk; or more in limits.people: gpuadmin.yml"
            yield Cause("amount-over" if place == "home" else "amount-docker-over", cause, remedy, (), values)

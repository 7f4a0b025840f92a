"""Who is renumbered on which host, by what the hosts say. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuadmin.common.text import counted, listed, size_words


@dataclass(frozen=True)
class Moves:
    """`hosts`: host → name → uid before and after. `left`: name → why they stay as they are, everywhere."""

    hosts: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    left: Mapping[str, str] = field(default_factory=dict)

    def closed(self, seen: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, tuple[int, int]]]:
        """Whom each host keeps out meanwhile: those who change elsewhere as well, since homes are on the network."""
        found = {}
        for host, answer in seen.items():
            if answer["under_way"]:
                continue
            people = dict(self.hosts.get(host, {}))
            for name in self.people:
                if name in answer["has"]:  # guard: who is renumbered somewhere is kept out everywhere
                    people.setdefault(name, (answer["has"][name], answer["has"][name]))
            if people:
                found[host] = people
        return found

    @property
    def people(self) -> list[str]:
        return sorted({name for moves in self.hosts.values() for name in moves})


def assumed(
    seen: Mapping[str, Mapping[str, Any]], storage: Collection[str], wanted: Collection[str]
) -> dict[str, dict[str, int]]:
    """Host → name → the uid that their files have on a storage host where they have no account: what all nodes say.

    Nobody is in it of whom the nodes say different things: whose the files are is then not known.
    """
    found: dict[str, dict[str, int]] = {}
    for host in storage:
        for name in wanted:
            if name in seen[host]["has"]:
                continue
            uids = {answer["has"][name] for other, answer in seen.items() if other != host and name in answer["has"]}
            if len(uids) == 1:
                found.setdefault(host, {})[name] = uids.pop()
    return found


def decide(seen: Mapping[str, Mapping[str, Any]], storage: Collection[str], wanted: Mapping[str, int]) -> Moves:
    """Given each host's answer, return who is renumbered where.

    A person is renumbered on all hosts or on none, and whoever would get ids of somebody who stays, stays as well.
    """
    left: dict[str, str] = {}
    moving = {name for answer in seen.values() for name in answer["people"]}
    for host, answer in sorted(seen.items()):
        for name, words in answer["problems"].items():
            left.setdefault(name, f"{host}: {words}")
        for name, words in answer["busy"].items():
            if name in moving:  # whoever stays as they are may run what they like
                left.setdefault(name, f"{host}: {words}")
    for name in wanted:
        uids = {host: answer["has"][name] for host, answer in seen.items() if name in answer["has"]}
        for host in storage:
            several = name not in seen[host]["has"] and len(set(uids.values())) > 1
            if several:  # guard: whose files on the storage host are whose is not guessed
                said = ", ".join(
                    f"{uid} on {listed([one for one in uids if uids[one] == uid])}"
                    for uid in sorted(set(uids.values()))
                )
                left.setdefault(
                    name, f"{host}: has no account there, and the nodes say {said}: make one with the uid of their home"
                )
    while True:
        more = {}
        for host, answer in sorted(seen.items()):
            holders = {pair[0]: name for name, pair in answer["people"].items()}
            for name, pair in answer["people"].items():
                holder = holders.get(pair[1])
                if name not in left and holder is not None and holder != name and holder in left:
                    more[name] = f"{host}: uid {pair[1]} is still {holder}'s there, who is left out"
                other = _over_the_network(name, pair, seen, moving - set(left)) if host in storage else None
                if name not in left and other is not None:  # guard: nobody reaches a home while it changes hands
                    more[name] = f"{host}: {other}, who would reach their files over the network: renumber both at once"
        if not more:
            break
        left.update(more)
    hosts = {
        host: {name: (pair[0], pair[1]) for name, pair in sorted(answer["people"].items()) if name not in left}
        for host, answer in sorted(seen.items())
    }
    return Moves({host: moves for host, moves in hosts.items() if moves}, left)


def _over_the_network(
    name: str, pair: Collection[int], seen: Mapping[str, Mapping[str, Any]], kept_out: Collection[str]
) -> str | None:
    """Who else has one of a person's uids on some host, and is let in meanwhile."""
    for host, answer in sorted(seen.items()):
        for other, uid in answer["has"].items():
            if uid in pair and other != name and other not in kept_out:
                return f"uid {uid} is {other}'s on {host}"
    return None


def agree(seen: Mapping[str, Mapping[str, Any]], moves: Moves) -> bool:
    """Whether every host says the same of everybody who would be renumbered: then keeping the uids is the cheap way."""
    said: dict[str, set[int]] = {}
    for people in moves.hosts.values():
        for name, (old, _new) in people.items():
            said.setdefault(name, set()).add(old)
    for answer in seen.values():
        for name, uids in said.items():
            if name in answer["has"]:
                uids.add(answer["has"][name])
    taken = [uid for uids in said.values() for uid in uids]
    return bool(said) and all(len(uids) == 1 for uids in said.values()) and len(set(taken)) == len(taken)


def steps(answer: Mapping[str, Any], moves: Mapping[str, tuple[int, int]]) -> list[str]:
    """What happens on one host, a line for each person, with what they have there."""
    lines = []
    for name, (old, new) in moves.items():
        parts = []
        for tree, people in sorted(answer.get("trees", {}).items()):
            if name in people:
                entries, size = people[name]
                parts.append(f"{counted(entries, 'file')}, {size_words(size)} in {tree}")
        swap = " (changes places)" if any(pair[0] == new for other, pair in moves.items() if other != name) else ""
        lines.append(f"{name}: uid and gid {old} become {new}{swap}; {'; '.join(parts) or 'no files'}")
    return lines


def notes(host: str, answer: Mapping[str, Any]) -> list[str]:
    """What an admin has to know of a host beside."""
    lines = [f"{host}: {text}" for text in answer.get("notes", [])]
    lines += [f"{host}: not looked at: {text}" for text in answer.get("unknown", [])]
    lines += [f"{host}: {text} names such a uid: look at it yourself" for text in answer.get("written", [])]
    return lines

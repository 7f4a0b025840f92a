"""Who is renumbered on which host, by what the hosts say. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuadmin.common.text import counted, listed


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


def moving(seen: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Whose uid changes somewhere, if nothing is in the way."""
    return {name for answer in seen.values() for name in answer["people"]}


def in_queue(seen: Mapping[str, Mapping[str, Any]], names: Collection[str], jobs: Mapping[str, int]) -> dict[str, str]:
    """Name → in words what somebody of these has in the queue, which has the uid of when it was asked for.

    ``jobs``: how many somebody has, by their name, or by a uid that has no name where the queue is.
    """
    found = {}
    for name in names:
        old = {answer["renamed"][name]["was"] for answer in seen.values() if name in answer["renamed"]}
        uids = {str(uid) for answer in seen.values() for uid in answer["people"].get(name, ())}
        theirs = {name, *old, *uids} & set(jobs)
        count = sum(jobs[one] for one in theirs)
        if count:  # guard: a job in the queue keeps its uid
            which = "it" if count == 1 else "them"
            found[name] = (
                f"has {counted(count, 'job')} in the queue: cancel {which} (scancel -u {','.join(sorted(theirs))})"
            )
    return found


def reboots(seen: Mapping[str, Mapping[str, Any]], moves: Moves, storage: Collection[str]) -> list[str]:
    """The hosts that are to boot: where ids change. If homes change hands, or a run was cut off, all that are not done
    yet: people on the others have those homes mounted, or have been sent away already."""
    left = [host for host, answer in seen.items() if not answer["whole"]]
    changing = {*moves.hosts, *(host for host, answer in seen.items() if answer["under_way"])} & set(left)
    cut_off = len(left) < len(seen) and not any(answer["rest"] for answer in seen.values())
    if changing & set(storage) or cut_off:  # guard: nobody has a home open while it changes hands
        return left
    return [host for host in left if host in changing]


def begun(seen: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Name → the uid that an earlier run has begun to give them somewhere, whatever users.yml says now."""
    return {name: pair[1] for answer in seen.values() if answer["under_way"] for name, pair in answer["people"].items()}


def find_kept(seen: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, int]) -> dict[str, str]:
    """Name → why they stay out when the others are let in: a file of theirs could not change hands on some host, or
    one of somebody else's still has the uid that they are to have. ``wanted``: name → that uid."""
    found: dict[str, str] = {}
    for host, answer in sorted(seen.items()):
        for name, words in answer["kept"].items():
            found.setdefault(name, f"{host}: {words}")
    for host, answer in sorted(seen.items()):
        for name, uid in sorted(wanted.items()):
            if uid in answer["staying"]:  # guard: nobody is let in on one host whose uid a file of another still has
                found.setdefault(name, f"{host}: a file still has id {uid}, which is to be theirs")
    return found


def begun_names(seen: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Name → the one that they had, of those whom an earlier run has begun to give another somewhere."""
    return {
        name: one["was"] for answer in seen.values() if answer["under_way"] for name, one in answer["renamed"].items()
    }


def find_strange(seen: Mapping[str, Mapping[str, Any]], registered: Mapping[str, int]) -> list[str]:
    """What hosts say that they have begun and users.yml does not: it was edited since, or a host lies. In words."""
    return [
        f"{host} says that it has begun to give {name} uid {pair[1]}, and users.yml says "
        f"{registered.get(name, 'none')}: all hosts follow it. "
        "Unless users.yml was edited since, say no, and look at that host"
        for host, answer in sorted(seen.items())
        if answer["under_way"]
        for name, pair in sorted(answer["people"].items())
        if registered.get(name) != pair[1]  # guard: no host makes up a uid for the others unseen
    ]


def shut_out(seen: Mapping[str, Mapping[str, Any]], moves: Moves) -> dict[str, list[str]]:
    """Host → whom an earlier run has closed there and begun nowhere, and who is not renumbered by this one either."""
    kept = {
        *moves.people,
        *begun(seen),  # guard: nobody is opened on one host who is half renumbered on another
    }
    found = {host: sorted(set(answer["closed"]) - kept) for host, answer in sorted(seen.items())}
    return {host: names for host, names in found.items() if names}


def assumed(
    seen: Mapping[str, Mapping[str, Any]], storage: Collection[str], wanted: Collection[str]
) -> dict[str, dict[str, int]]:
    """Host → name → the uid that their files have on a storage host where they have no account: what all nodes say.

    Nobody is in it of whom the nodes say different things: whose the files are is then not known. Where a run was cut
    off some nodes are done, and what it had decided for the host still holds.
    """
    found: dict[str, dict[str, int]] = {}
    for host in storage:
        for name in wanted:
            if name in seen[host]["has"]:
                continue
            if name in seen[host]["closed"]:
                found.setdefault(host, {})[name] = seen[host]["closed"][name][0]
                continue
            uids = {answer["has"][name] for other, answer in seen.items() if other != host and name in answer["has"]}
            if len(uids) == 1:
                found.setdefault(host, {})[name] = uids.pop()
    return found


def decide(
    seen: Mapping[str, Mapping[str, Any]],
    storage: Collection[str],
    wanted: Mapping[str, int],
    jobs: Mapping[str, int] | None = None,
) -> Moves:
    """Given each host's answer, return who is renumbered where.

    A person is renumbered on all hosts or on none, and whoever would get ids of somebody who stays, stays as well.
    """
    left: dict[str, str] = {}
    changing = moving(seen)
    for host, answer in sorted(seen.items()):
        for name, words in answer["problems"].items():
            left.setdefault(name, f"{host}: {words}")
    for name, words in in_queue(seen, sorted(changing), jobs or {}).items():
        left.setdefault(name, words)
    for name in wanted:
        uids = {host: answer["has"][name] for host, answer in seen.items() if name in answer["has"]}
        for host in storage:
            known = name in seen[host]["has"] or name in seen[host]["people"]  # an earlier run has decided it
            several = not known and len(set(uids.values())) > 1
            if several:  # guard: whose files on the storage host are whose is not guessed
                claims = ", ".join(
                    f"{uid} on {listed([one for one in uids if uids[one] == uid])}"
                    for uid in sorted(set(uids.values()))
                )
                left.setdefault(
                    name,
                    f"{host}: has no account there, and the nodes say {claims}: make one with the uid of their home",
                )
    while True:
        more = {}
        for host, answer in sorted(seen.items()):
            holders = {pair[0]: name for name, pair in answer["people"].items()}
            for name, pair in answer["people"].items():
                holder = holders.get(pair[1])
                if name not in left and holder is not None and holder != name and holder in left:
                    more[name] = f"{host}: uid {pair[1]} is still {holder}'s there, who is left out"
                other = _over_the_network(name, pair, seen, changing - set(left)) if host in storage else None
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

"""Whose homes on nodes' disks are moved to the storage host, and whose are left, by what the hosts say. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from gpuadmin.common.records.moving import MovedHome
from gpuadmin.common.text import counted, listed, size_words

Answer = Mapping[str, Any]
COPIED = ("copied", "changing", "late")  # steps of record.py on the storage host in which most of a home is there


@dataclass(frozen=True)
class Move:
    """`main`: the node whose home becomes theirs; None: the storage host has one already. `why`: the reason.

    `others`: the nodes whose homes go into it as `before-NODE`.
    """

    main: str | None
    why: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """``fetch``: homes that are moved. ``finish``: those that are at their place; the old ones have their names yet.

    ``left``: who is left as they are, and why. ``why``: name → why that home becomes the main one. ``notes``: words.
    """

    fetch: tuple[MovedHome, ...] = ()
    finish: tuple[MovedHome, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def people(self) -> dict[str, int]:
        return dict(sorted({one.name: one.uid for one in (*self.fetch, *self.finish)}.items()))


@dataclass(frozen=True)
class Cluster:
    """What hosts said (`looking.py`): nodes by name, and the storage host.

    ``main``: person → the node that an admin named. ``limits``: person → bytes that a home may have. ``addresses``:
    node → what other hosts connect to.
    """

    nodes: Mapping[str, Answer]
    server: str
    storage: Answer
    main: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)

    def records(self, name: str) -> dict[str, Answer]:
        return {one["host"]: one for one in self.storage["parts"] if one["name"] == name}

    def has(self, name: str) -> dict[str, Answer]:
        return {host: answer["homes"][name] for host, answer in sorted(self.nodes.items()) if name in answer["homes"]}


def decide(people: Mapping[str, int], cluster: Cluster) -> Decision:
    """Given people with the uids of users.yml, return whose homes are moved. Of a person all homes go, or none."""
    left: dict[str, str] = {}
    why: dict[str, str] = {}
    fetch: dict[str, list[MovedHome]] = {}
    finish: list[MovedHome] = []
    for name, uid in sorted(people.items()):
        finish += _unfinished(name, uid, cluster)
        homes = _to_fetch(name, cluster)
        if name in cluster.main and cluster.main[name] not in homes and homes:
            left[name] = f"--main: {cluster.main[name]} has no home of theirs to move"
            continue
        reason = _problem(name, uid, homes, cluster)
        if reason is not None:
            # or something of theirs is on a node's disk that a reader would miss
            if homes or any(name in answer["problems"] for answer in cluster.nodes.values()):
                left[name] = reason
            continue
        if not homes:
            continue
        move = _move(name, homes, cluster)
        clash = _clash(name, move, homes, cluster)
        if clash is not None:
            left[name] = clash
            continue
        why[name] = move.why
        fetch[name] = [_home(name, uid, host, move, homes[host]) for host in homes]
    for name in _without_room(fetch, cluster, left):
        del fetch[name]
    notes = [*_notes(fetch, cluster)]
    return Decision(tuple(one for own in fetch.values() for one in own), tuple(finish), left, why, tuple(notes))


def _home(name: str, uid: int, host: str, move: Move, found: Answer) -> MovedHome:
    of_node = found["device"], found["inode"], "begun", "", found["files"], found["bytes"]
    return MovedHome(name, uid, host, move.main == host, move.main is None, *of_node)


def get_home(found: Answer) -> MovedHome:
    """Given a home as the storage host reports it, return it."""
    return MovedHome(**{one.name: found[one.name] for one in fields(MovedHome)})


def _to_fetch(name: str, cluster: Cluster) -> dict[str, Answer]:
    """The person's homes on nodes that the storage host has not placed."""
    records = cluster.records(name)
    return {host: home for host, home in cluster.has(name).items() if not records.get(host, {}).get("placed")}


def _unfinished(name: str, uid: int, cluster: Cluster) -> Iterator[MovedHome]:
    """Homes that are at their place on the storage host while the old ones are not set aside, or not known to be."""
    for host, one in cluster.records(name).items():
        if one.get("placed") and one["step"] != "aside" and host in cluster.nodes:
            yield replace(get_home(one), uid=uid)


def _problem(name: str, uid: int, homes: Mapping[str, Answer], cluster: Cluster) -> str | None:
    """Why a person's homes stay where they are: the first reason, by host."""
    for host, answer in sorted(cluster.nodes.items()):
        if host in homes or name in answer["problems"]:
            found = _on_node(name, uid, homes.get(host), answer) or _on_the_way(host, homes, answer, cluster)
            if found is not None:
                return f"{host}: {found}"
    its = cluster.storage["uids"].get(name, uid)
    if homes and its != uid:
        return f"{cluster.server}: {_other_uid(name, uid, its)}"
    if name in cluster.storage["problems"]:
        return f"{cluster.server}: {cluster.storage['problems'][name]}"
    again = [host for host in homes if cluster.records(name).get(host, {"step": ""})["step"] == "aside"]
    return f"{again[0]}: has a new home there since the move: move or delete it by hand" if again else None


def _on_node(name: str, uid: int, home: Answer | None, answer: Answer) -> str | None:
    its = answer["uids"].get(name)
    if its != uid:  # guard: manifests have uids: a person has one everywhere
        return _other_uid(name, uid, its)
    if name in answer["problems"]:
        return str(answer["problems"][name])
    if name in answer["elsewhere"]:
        return f"their home there is {answer['elsewhere'][name]}"
    if home is not None and home["odd"]:  # guard: a home that holds another file system is not moved in part
        return str(home["odd"][0])
    return None if answer["host_key"] else "has no ed25519 ssh host key: ssh-keygen -A"


def _on_the_way(host: str, homes: Mapping[str, Answer], answer: Answer, cluster: Cluster) -> str | None:
    """Why the storage host could not fetch a home from a node."""
    if host not in homes:
        return None
    if answer["no_login"]:  # guard: nothing is planned for a node that root cannot log in to
        return str(answer["no_login"])
    key, address = cluster.storage["reached"].get(host), cluster.addresses.get(host, host)
    if key is None or key == answer["host_key"]:
        return None
    found = f"finds another host at {address}" if key else f"gets no ssh host key at {address}, port 22"
    # guard: nothing is planned for a node that the storage host does not reach
    return f"{cluster.server} {found}: gpuadmin_address (inventory/) is the address that the other hosts reach it at"


def _other_uid(name: str, uid: int, its: int | None) -> str:
    if its is None:
        return f"has a home there, and no account: useradd -M -u {uid} {name}, if it is theirs"
    return f"has uid {its} there, and {uid} in users.yml: gpuadmin renumber {name}"


def _move(name: str, homes: Mapping[str, Answer], cluster: Cluster) -> Move:
    """Which home becomes the one: what the storage host has, what an admin says, or the largest."""
    there = cluster.storage["there"].get(name, {"kind": "none"})["kind"]
    if there == "theirs":  # guard: a home that somebody has used is not replaced
        return Move(None, f"{cluster.server} has one already", tuple(homes))
    if name in cluster.main:
        return _chosen(homes, cluster.main[name], "--main says so")
    main = max(homes, key=lambda host: (homes[host]["bytes"], [-ord(letter) for letter in host]))
    return _chosen(homes, main, f"it is the largest, {size_words(homes[main]['bytes'])}")


def _chosen(own: Collection[str], main: str, why: str) -> Move:
    return Move(main, why if len(own) > 1 else "there is no other", tuple(host for host in own if host != main))


def _clash(name: str, move: Move, homes: Mapping[str, Answer], cluster: Cluster) -> str | None:
    """Whether something has the name already that a further home would get."""
    if move.main is None and name in cluster.main:
        return f"{cluster.server}: has a home that they use already, and --main does not replace it"
    there = cluster.storage["there"].get(name, {}) if move.main is None else homes[move.main]
    taken = [host for host in move.others if f"before-{host}" in there.get("before", [])]
    if taken:  # guard: a home goes where nothing is
        where = move.main or cluster.server
        return f"{where}: their home there has a before-{taken[0]} already: rename it first"
    return None


def _size(homes: Collection[MovedHome]) -> int:
    return sum(one.bytes for one in homes)


def _without_room(fetch: Mapping[str, list[MovedHome]], cluster: Cluster, left: dict[str, str]) -> list[str]:
    """Who would have more than they may, or for whom there is no room beside those who have less."""
    gone, free = [], int(cluster.storage["free"])
    for name, homes in sorted(fetch.items(), key=lambda one: (_size(one[1]), one[0])):
        limit, size = cluster.limits.get(name), _size(homes)
        if limit is not None and size > limit:  # guard: nobody gets a home that is larger than it may be
            left[name] = (
                f"{cluster.server}: has {size_words(size)} on {listed([one.host for one in homes])}, and may have "
                f"{size_words(limit)} (limits.home)"
            )
            gone.append(name)
            continue
        records = cluster.records(name)
        asked = sum(one.bytes for one in homes if records.get(one.host, {"step": ""})["step"] not in COPIED)
        if asked > free:  # guard: what does not fit is not begun
            left[name] = f"{cluster.server}: has no room for {size_words(asked)}, {size_words(free)} are free"
            gone.append(name)
            continue
        free -= asked
    return gone


def _notes(fetch: Mapping[str, list[MovedHome]], cluster: Cluster) -> Iterator[str]:
    yield from (f"{host}: {answer['note']}" for host, answer in sorted(cluster.nodes.items()) if answer["note"])
    for host, answer in [*sorted(cluster.nodes.items()), (cluster.server, cluster.storage)]:
        for name, words in sorted(answer["busy"].items()):
            if name in fetch:
                yield (
                    f"{name} {words} on {host}: their homes are copied, and moved only if they are logged out by then"
                )


def steps(home: MovedHome, why: str) -> str:
    """What happens to a home, in words."""
    size = f"{counted(home.files, 'file')}, {size_words(home.bytes)}"
    if home.main:
        return f"{home.name}: {size}: becomes the home ({why})"
    return f"{home.name}: {size}: goes into the home as before-{home.host}/"

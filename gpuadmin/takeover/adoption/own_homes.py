"""Whose homes are on nodes' disks, as adopt sees it. Which one becomes the home is decided when they are measured."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuadmin.common.text import listed
from gpuadmin.takeover.adoption.conflict import Conflict
from gpuadmin.takeover.adoption.groups import Homes
from gpuadmin.takeover.adoption.people import People
from gpuadmin.takeover.adoption.seen import Host, plain_path


@dataclass(frozen=True)
class Own:
    """The nodes that have a home of a person's, and whether the storage host has one already."""

    nodes: tuple[str, ...]
    there: bool


def served(hosts: Sequence[Host], homes: Homes) -> set[str]:
    """The names of homes that the storage host has already, as far as it or a host that mounts them shows any.

    What it has in its own /home, beside what it exports, is seen by no node.
    """
    found: set[str] = set()
    for host in hosts:
        for root in host.listed("homes"):
            own = host.name == homes.server and not root["network"] and root["path"] == (homes.export or homes.path)
            if own or (root["path"] == homes.path and root["network"] and root["source"] in homes.sources):
                found |= {entry["name"] for entry in root["entries"]}
    return found


def own_homes(nodes: Sequence[Host], homes: Homes, people: People, there: Collection[str]) -> dict[str, Own]:
    """Given the nodes and whose homes are `there` already, return who has homes on which nodes' disks.

    Nobody is in it who cannot be in users.yml, and no directory that is not its person's.
    """
    found: dict[str, list[str]] = {}
    for host in nodes:
        for name in _own(host, homes.path):
            person = people.persons.get(name)
            if person is not None and person.user is not None:
                found.setdefault(name, []).append(host.name)
    return {name: Own(tuple(hosts), name in there) for name, hosts in sorted(found.items())}


def _own(host: Host, path: str) -> Iterator[str]:
    """The names of the homes on the host's own disk that are the homes of accounts and their owners'."""
    root = host.homes(path)
    if root is None or root["network"]:
        return
    for entry in root["entries"]:
        account = host.people.get(entry["name"])
        if account is None or entry["kind"] != "directory":
            continue
        if plain_path(account["home"]) != f"{path}/{entry['name']}":
            continue
        if entry["uid"] != account["uid"]:  # guard: a home goes to nobody but its owner
            continue
        yield entry["name"]


def several(found: Mapping[str, Own], homes: Homes) -> Iterator[Conflict]:
    """People with more than one home, those of one fate together."""
    together: dict[Own, list[str]] = {}
    for name, own in found.items():
        if len(own.nodes) + own.there > 1:
            together.setdefault(own, []).append(name)
    for own, names in together.items():
        measured = "# gpuadmin move-homes measures them; --main USER=HOST says which becomes the home"
        if own.there:
            words = (
                f"that of {homes.server or 'the storage host'} stays the home if somebody has used it, and those of"
                f" {listed(own.nodes)} go"
            )
            measured = "# gpuadmin move-homes --check says which; one that provision made and nobody used goes"
        else:
            words = f"of those of {listed(own.nodes)} the largest becomes the home, and the others go"
        yield Conflict(
            "several homes",
            f"{listed(names)}: {words} into it as before-HOST/",
            "decide",
            own.nodes,
            tuple(names),
            (measured,),
        )

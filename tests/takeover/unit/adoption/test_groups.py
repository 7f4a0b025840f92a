"""Which group a host is guessed to be in, and why."""

from typing import Any

import pytest

from gpuadmin.takeover.adoption.groups import conflicts, find_homes, group
from gpuadmin.takeover.adoption.seen import Host
from tests.support.adoptable import homes, host, storage

NONE = {"bus": [], "devices": 0, "driver": None, "model": None}
NFS = [homes(source="nas1:/srv/homes", fstype="nfs4", mounted=True)]


def guessed(*hosts: Host) -> dict[str, tuple[str, ...]]:
    return {name: one.groups for name, one in group(hosts, find_homes(hosts)).items()}


TABLE: list[tuple[list[Host], dict[str, tuple[str, ...]]]] = [
    ([storage(), host("gpu1"), host("gpu2")], {"nas1": ("storage",), "gpu1": ("gpu", "golden"), "gpu2": ("gpu",)}),
    # nobody exports: the host that has no GPU
    ([host("a", gpus=NONE), host("b")], {"a": ("storage",), "b": ("gpu", "golden")}),
    # of two of them the one that has homes
    (
        [host("a", gpus=NONE), host("b", gpus=NONE, homes=[homes("minji", "jiho")]), host("c")],
        {"a": (), "b": ("storage",), "c": ("gpu", "golden")},
    ),
    # no host has a GPU that can be seen: a name has to say it
    ([host("nas", gpus=NONE), host("b", gpus=NONE)], {"nas": ("storage",), "b": ("gpu", "golden")}),
    ([host("a", gpus=NONE), host("b", gpus=NONE)], {"a": ("gpu", "golden"), "b": ("gpu",)}),
    # all have GPUs, and one of them exports
    (
        [host("a", exports=[{"path": "/home", "clients": ""}]), host("b")],
        {"a": ("storage",), "b": ("gpu", "golden")},
    ),
    # device files count where the bus shows nothing
    ([storage(), host("b", gpus={**NONE, "devices": 2})], {"nas1": ("storage",), "b": ("gpu", "golden")}),
    (
        [storage(services={"active": ["prometheus.service"], "repositories": []}), host("b")],
        {"nas1": ("storage", "monitor"), "b": ("gpu", "golden")},
    ),
    # people log in to a node: what is measured of others is not kept there
    (
        [storage(), host("b", services={"active": ["prometheus.service"], "repositories": []})],
        {"nas1": ("storage",), "b": ("gpu", "golden")},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("hosts", "groups"), TABLE)
def test_groups(hosts: list[Host], groups: dict[str, tuple[str, ...]]) -> None:
    assert guessed(*hosts) == groups
    assert all(one.why for one in group(hosts, find_homes(hosts)).values()), "each guess says why"


@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        ([storage(), host(homes=NFS)], ("/home", "/srv/homes", "nas1")),
        # NFSv4 names it from the root of its exports on
        ([storage(), host(homes=[homes(source="nas1:/homes", fstype="nfs4")])], ("/home", "/srv/homes", "nas1")),
        # what is mounted comes before what is only exported
        (
            [storage("old", exports=[{"path": "/old/home", "clients": ""}]), storage(), host(homes=NFS)],
            ("/home", "/srv/homes", "nas1"),
        ),
        # the server is none of the hosts that were named
        ([host(homes=NFS)], ("/home", None, None)),
        ([host()], ("/home", None, None)),
    ],
)
def test_where_homes_are(hosts: list[Host], found: tuple[Any, ...]) -> None:
    homes = find_homes(hosts)
    assert (homes.path, homes.export, homes.server) == found


def kinds(*hosts: Host) -> list[str]:
    return [one.kind for one in conflicts(hosts, group(hosts, find_homes(hosts)))]


def test_what_a_guess_leaves_open() -> None:
    assert kinds(storage(), host()) == []
    assert kinds(host()) == ["no storage host"]
    assert kinds(storage()) == ["no node"]
    assert kinds(host("a", exports=[{"path": "/home", "clients": ""}]), host("b")) == ["storage host with GPUs"]
    assert kinds(host("a", gpus=NONE), host("b", gpus=NONE, homes=[homes("x")]), host("c")) == ["no group"]

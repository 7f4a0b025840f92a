"""Who has homes on nodes' disks, and what the report says of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuadmin.takeover.adoption.conflict import Conflict
from gpuadmin.takeover.adoption.own_homes import Own, own_homes, served
from gpuadmin.takeover.adoption.proposal import propose
from gpuadmin.takeover.adoption.seen import Host
from tests.support.adoptable import ROOT, account, homes, host, storage


def node(name: str, uid: int = 1001, owner: int | None = None, kind: str = "directory") -> Host:
    """A node with minji's account and what is at her home's place."""
    found = homes("minji")
    found["entries"][0].update(uid=uid if owner is None else owner, kind=kind)
    return host(name, accounts=[ROOT, account("minji", uid)], keys={}, homes=[found])


def found(*hosts: Host) -> dict[str, Own]:
    made = propose("lab", hosts, login="gpuadmin")
    nodes = [one for one in hosts if "gpu" in made.groups[one.name].groups]
    return own_homes(nodes, made.homes, made.people, served(hosts, made.homes))


def conflict(kind: str, *hosts: Host) -> list[Conflict]:
    return [one for one in propose("lab", hosts, login="gpuadmin").conflicts if one.kind == kind]


@pytest.mark.parametrize("shown_by", ["the storage host", "a node that mounts it"])
def test_a_home_on_the_storage_host_stays_the_home(shown_by: str) -> None:
    if shown_by == "the storage host":
        hosts = [storage(homes=[homes("minji", path="/srv/homes")]), node("gpu1")]
    else:
        mounted = homes("minji", source="nas1:/srv/homes", fstype="nfs4", mounted=True)
        hosts = [storage(), node("gpu1"), host("gpu2", homes=[mounted])]
    assert found(*hosts)["minji"] == Own(("gpu1",), True)
    (several,) = conflict("several homes", *hosts)
    assert "that of nas1 stays the home if somebody has used it" in several.words


@pytest.mark.holds("what is in the storage host's own homes is copied as nobody but its owner")
def test_what_the_storage_host_has_beside_what_it_serves_is_nobody_s_home_on_nodes() -> None:
    """minji's files are in /home there, and nodes mount /srv/homes: it is said, and not taken for the home."""
    there = homes("minji", "gone")
    server = storage(accounts=[ROOT, account("minji", 1001)], homes=[there, homes(path="/srv/homes")])
    hosts = [server, node("gpu1")]
    assert found(*hosts)["minji"] == Own(("gpu1",), False)
    (one,) = conflict("homes of the storage host's own", *hosts)
    assert (one.people, one.hosts) == (("minji",), ("nas1",))
    copy = "runuser -u minji -- cp -aT /home/minji /srv/homes/minji/before-nas1"
    assert one.remedies[1:] == (f"test ! -e /srv/homes/minji/before-nas1 && {copy}",)
    other = storage(accounts=[ROOT, account("minji", 1009)], homes=[there])
    (one,) = conflict("homes of the storage host's own", other, node("gpu1"), node("gpu2"))
    assert not any("cp " in line for line in one.remedies), "as another's they are not copied"


@pytest.mark.holds("a home goes to nobody but its owner")
def test_what_is_another_s_is_copied_to_nobody_and_named() -> None:
    hosts = [storage(), node("gpu1"), node("gpu2", owner=1002)]
    assert found(*hosts)["minji"] == Own(("gpu1",), False)
    lines = next(one for one in conflict("homes on the node", *hosts) if one.hosts == ("gpu2",)).remedies
    assert lines[0].startswith("# move-homes leaves the homes of minji: another's uid")
    assert not any("mv " in line or line.startswith("gpuadmin") for line in lines)


@pytest.mark.parametrize("kind", ["link", "file", "other"])
def test_what_is_no_directory_is_no_home(kind: str) -> None:
    assert found(storage(), node("gpu1", kind=kind)) == {}


def test_the_commands_move_what_is_somebodys_and_leave_the_rest() -> None:
    hosts = [storage(), node("gpu1"), node("gpu2")]
    first, second = conflict("homes on the node", *hosts)
    assert first.remedies == second.remedies
    assert first.remedies[0] == "gpuadmin provision --limit nas1"
    assert first.remedies[1].startswith("gpuadmin move-homes --check")
    (several,) = conflict("several homes", *hosts)
    assert several.hosts == ("gpu1", "gpu2")
    assert several.people == ("minji",)
    assert "the largest becomes the home" in several.words
    assert conflict("several homes", *hosts[:2]) == []


@given(st.lists(st.integers(1001, 1004), min_size=1, max_size=5), st.booleans())
def test_every_home_is_said_once(uids: list[int], there: bool) -> None:
    nodes = [node(f"gpu{place}", uid) for place, uid in enumerate(uids)]
    server = storage(homes=[homes(*(["minji"] if there else []), path="/srv/homes")])
    assert found(server, *nodes)["minji"] == Own(tuple(one.name for one in nodes), there)

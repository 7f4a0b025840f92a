"""What a host has of homes: whose they are, what is in them, and what cannot be moved."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host

from gpuadmin.common.records.moving import Place
from gpuadmin.takeover.node.moving import looking, record
from tests.support.moving_homes import Cluster
from tests.support.storage import run

pytestmark = pytest.mark.root
MINJI, EVE = 31251, 31252


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    found = Cluster(tmp_path / "c")
    found.home("gpu1", "minji", MINJI, {"a": b"1234", "before-x/b": b"56", "d/c": b""})
    return found


def node(cluster: Cluster, **people: int) -> dict[str, Any]:
    return looking.node(str(cluster.base / "gpu1" / "home"), people)


def test_files_are_counted_once_and_names_are_told(cluster: Cluster) -> None:
    home = cluster.base / "gpu1" / "home" / "minji"
    (home / "again").hardlink_to(home / "a")
    found = node(cluster, minji=MINJI, jiho=31003)
    assert found["problems"] == {}
    (one,) = found["homes"].values()
    assert (one.files, one.bytes, one.before, one.odd) == (3, 6, ["before-x"], [])
    assert (one.inode, one.device) == (home.stat().st_ino, home.stat().st_dev)


@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
def test_what_is_mounted_in_a_home_is_named(cluster: Cluster, kind: str) -> None:
    place = cluster.base / "gpu1" / "home" / "minji" / "d"
    if kind == "bind":
        (cluster.base / "shared").mkdir()
        run("mount", "-o", "bind", cluster.base / "shared", place)
    else:
        run("mount", "-t", "tmpfs", "none", place)
    try:
        found = node(cluster, minji=MINJI)
    finally:
        run("umount", place)
    assert "'d' is a file system" in found["homes"]["minji"].odd[0]


@pytest.mark.holds("a home that is a mount of its own is not moved")
@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
def test_a_home_that_is_a_mount_of_its_own_is_a_problem_of_its_persons(cluster: Cluster, kind: str) -> None:
    """No rename sets it aside: its person would be kept out in each run."""
    place = cluster.home("gpu1", "eve", EVE, {})
    source = cluster.home("gpu2", "eve", EVE, {"x": b"x"})
    run("mount", *(("-o", "bind", source) if kind == "bind" else ("-t", "tmpfs", "-o", f"uid={EVE}", "none")), place)
    try:
        found = node(cluster, minji=MINJI, eve=EVE)
    finally:
        run("umount", place)
    assert list(found["homes"]) == ["minji"]
    assert "is a mount of its own" in found["problems"]["eve"]


@pytest.mark.holds("what an automounter would bring from elsewhere is not asked for")
@pytest.mark.parametrize(
    ("line", "homes", "problem", "note"),
    [
        ("{home}/eve rw - nfs4 nas1:/srv/homes/eve rw", ["minji"], "mounted from elsewhere (nfs4 from", ""),
        ("{home}/eve rw - autofs auto.eve rw,direct", ["minji"], "mounted from elsewhere (autofs from", ""),
        ("{home} rw - autofs systemd-1 rw,direct", [], "", ""),
        ("{home} rw - autofs /etc/auto.home rw,indirect", [], "", "is an automounter's (/etc/auto.home)"),
        ("{home} rw - nfs4 nas1:/srv/homes rw", [], "", ""),
    ],
)
def test_what_comes_from_elsewhere_is_not_on_this_disk(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, line: str, homes: list[str], problem: str, note: str
) -> None:
    cluster.home("gpu1", "eve", EVE, {})
    mounted = f"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:9 / {line.format(home=cluster.base / 'gpu1' / 'home')}\n"
    monkeypatch.setattr(looking.mounts, "read_mountinfo", lambda: mounted)
    found = node(cluster, minji=MINJI, eve=EVE)
    assert list(found["homes"]) == homes
    assert problem in found["problems"].get("eve", "")
    assert bool(found["problems"]) is bool(problem)
    assert note in found["note"]
    assert bool(found["note"]) is bool(note)


@pytest.mark.holds("a directory of homes is no link to another")
@pytest.mark.parametrize("inner", ["", "home"])
def test_a_directory_of_homes_that_a_link_leads_to_is_not_opened(cluster: Cluster, inner: str) -> None:
    (cluster.base / "link").symlink_to(cluster.base / "gpu1" / ("" if inner else "home"))
    found = looking.node(str(cluster.base / "link" / inner).rstrip("/"), {"minji": MINJI})
    assert found["homes"] == {}
    assert "leads through a symbolic link" in found["problems"]["minji"]


@pytest.mark.holds("in a directory of homes only root gives names")
@pytest.mark.parametrize("what", ["another's", "a link", "a file", "open to all"])
def test_what_is_nobodys_home_is_a_problem_of_theirs(cluster: Cluster, what: str) -> None:
    home = cluster.base / "gpu1" / "home" / "minji"
    cluster.home("gpu1", "eve", EVE, {"x": b""})
    if what == "another's":
        os.chown(home, EVE, EVE)
    elif what == "open to all":
        home.parent.chmod(0o777)
    else:
        home.rename(home.with_name("away"))
        home.symlink_to("/root") if what == "a link" else home.write_text("")
    found = node(cluster, minji=MINJI, eve=EVE)
    assert "minji" in found["problems"]
    assert (what in ("a link", "a file")) is ("it is a link, or no directory" in found["problems"]["minji"])
    assert ("eve" in found["homes"]) is (what != "open to all")


def test_what_the_storage_host_has_at_a_homes_place(cluster: Cluster) -> None:
    people = {"minji": MINJI, "eve": EVE, "jiho": 31003, "yuna": 31004}
    cluster.home("storage", "minji", MINJI, {".profile": b"umask 022\n"})
    cluster.home("storage", "eve", EVE, {"before-gpu1/x": b"x"})
    cluster.home("storage", "yuna", EVE, {})
    found = looking.storage(str(cluster.homes), people, str(cluster.skeleton), str(cluster.state))
    assert found["there"] == {
        "minji": Place("untouched", []),
        "eve": Place("theirs", ["before-gpu1"]),
        "jiho": Place("none", []),
    }
    assert found["problems"] == {"yuna": f"their home belongs to uid {EVE}, not 31004"}
    assert found["free"] > 0


def test_accounts_as_the_host_has_them(host: Host) -> None:
    with Path(host.path("etc/passwd")).open("a") as stream:
        stream.write(f"minji:x:{MINJI}:{MINJI}::/home/minji:/bin/sh\neve:x:{EVE}:{EVE}::/data/eve:/bin/sh\n")
    found = looking.accounts(host, "/home", {"minji": MINJI, "eve": 9, "jiho": 31003})
    assert (found["uids"], found["elsewhere"]) == ({"minji": MINJI, "eve": EVE}, {"eve": "/data/eve"})


@pytest.mark.holds("a name that a cut has left counts when it is on the disk")
def test_a_name_that_a_cut_has_left_is_on_the_disk_before_the_old_home_is_renamed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(looking, "sync_filesystem", synced.append)
    parts = cluster.parts("minji", MINJI, "gpu1")
    cluster.do("copy", parts)
    cluster.do("take", parts)
    known = record.load(str(cluster.state), "minji", "gpu1")
    assert known is not None
    assert [one["placed"] for one in cluster.parts_there("minji")] == [True]
    assert synced == []
    record.save(str(cluster.state), replace(known, step=record.CHANGING))
    assert [one["placed"] for one in cluster.parts_there("minji")] == [True]
    assert synced == [str(cluster.homes)]


def test_a_main_home_that_never_came_hides_none_that_did(cluster: Cluster) -> None:
    """An earlier run had another main home, which is gone from its node; this one was cut when all had their names."""
    cluster.home("gpu2", "minji", MINJI, {"other": b"x"})
    parts = cluster.parts("minji", MINJI, "gpu1", "gpu2")
    cluster.do("copy", parts)
    cluster.do("take", parts)
    for host in ("gpu1", "gpu2"):
        known = record.load(str(cluster.state), "minji", host)
        assert known is not None
        record.save(str(cluster.state), replace(known, step=record.CHANGING))
    record.save(str(cluster.state), replace(known, host="gpu0", main=True, step=record.COPIED, here=10**9))
    found = {one["host"]: one["placed"] for one in cluster.parts_there("minji")}
    assert found == {"gpu0": False, "gpu1": True, "gpu2": True}

"""Everybody's own directory of scratch: made once, theirs alone, and never in place of what is there."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import scratch
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host, converge
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import Settings
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.plan import Request

pytestmark = pytest.mark.root  # gives directories to other users
SETTINGS = Settings(scratch=["/local", "/data"])
MINJI = {"name": "minji", "uid": 20001}
JIHO = {"name": "jiho", "uid": 20002}


def owners(host: Host) -> dict[str, tuple[int, int, int]]:
    """Path → uid, gid, mode of all that is in the directories of scratch."""
    found = {}
    for directory in ("local", "data"):
        for path in (Path(host.root) / directory).glob("*"):
            facts = path.lstat()
            name = f"/{path.relative_to(host.root)}"
            found[name] = (facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode))
    return found


def test_everybody_has_a_directory_of_their_own(host: Host) -> None:
    request = Request(SETTINGS, [MINJI, JIHO])
    check = converge(request, host, check=True)
    assert owners(host) == {}
    done = converge(request, host)
    assert done.plan.operations == check.plan.operations
    assert "directory /local/minji (uid 20001, 0700)" in done.diff["after"]
    own = {"/local/minji": 20001, "/data/minji": 20001, "/local/jiho": 20002, "/data/jiho": 20002}
    assert owners(host) == {path: (uid, uid, 0o700) for path, uid in own.items()}
    (Path(host.root) / "local/minji/data").write_text("mine")
    assert not converge(request, host).changed
    assert (Path(host.root) / "local/minji/data").read_text() == "mine"


@pytest.mark.parametrize("other", ["directory of somebody else", "link", "file"])
def test_what_has_the_name_already_stays(host: Host, other: str) -> None:
    local = Path(host.root) / "local"
    local.mkdir()
    target = Path(host.root) / "target"
    target.mkdir(mode=0o755)
    path = local / "minji"
    if other == "link":
        path.symlink_to(target)
    elif other == "file":
        path.write_text("data")
    else:
        path.mkdir()
        os.chown(path, 20009, 20009)
    before = path.lstat()
    done = converge(Request(replace(SETTINGS, scratch=["/local"]), [MINJI, JIHO]), host)
    after = path.lstat()
    assert (after.st_uid, after.st_mode, after.st_ino) == (before.st_uid, before.st_mode, before.st_ino)
    assert target.stat().st_uid == 0
    assert done.plan.conflicts == [], "the account is fine, and a trial of a root must not end for it"
    assert "and stays as it is" in done.plan.remarks[0]
    assert (local / "jiho").stat().st_uid == 20002


@pytest.mark.holds("scratch is made where nobody can move it")
@pytest.mark.parametrize(("mode", "uid", "made"), [(0o1777, 0, True), (0o777, 0, False), (0o755, 20009, False)])
def test_where_somebody_could_rename_nothing_is_made(host: Host, mode: int, uid: int, made: bool) -> None:
    local = Path(host.root) / "local"
    local.mkdir()
    local.chmod(mode)
    os.chown(local, uid, uid)
    done = converge(Request(replace(SETTINGS, scratch=["/local"]), [MINJI, JIHO]), host)
    assert ("/local/minji" in owners(host)) == made
    assert len(done.plan.remarks) == (not made), "said once, and not for each person"


def test_a_network_file_system_is_not_this_nodes_own(host: Host) -> None:
    (Path(host.root) / "local").mkdir()
    away = replace(host, network=lambda path: "nfs4" if path.endswith("local") else None)
    done = converge(Request(SETTINGS, [MINJI]), away)
    assert set(owners(host)) == {"/data/minji"}
    assert done.plan.remarks == ["/local is on nfs4, and not this node's own: nobody gets a directory there"]


@pytest.mark.holds("whoever is locked out gets no scratch")
def test_whoever_is_locked_out_gets_none(host: Host) -> None:
    """A node that boots between the wipe and the end of the account must not make one again."""
    converge(Request(SETTINGS, [{**MINJI, "locked": True}, JIHO]), host)
    assert set(owners(host)) == {"/local/jiho", "/data/jiho"}
    converge(Request(replace(SETTINGS, login=False), [MINJI]), host)
    assert "/local/minji" not in owners(host), "nor on a host where nobody logs in"


@pytest.mark.holds("scratch that cannot be made keeps nobody from an account")
def test_a_full_disk_keeps_nobody_from_an_account(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str, *rest: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(scratch, "make_place", full)
    done = converge(Request(SETTINGS, [MINJI]), host)
    assert "minji:x:20001" in (Path(host.root) / "etc/passwd").read_text()
    assert done.plan.conflicts == []
    assert done.plan.problems == [f"{path}/minji: not made: No space left on device" for path in ("/local", "/data")]


def test_who_comes_from_a_directory_gets_one_as_nss_knows_them(host: Host) -> None:
    settings = replace(SETTINGS, source="directory", docker_data="/local/.docker")
    known = replace(host, lookup=lambda _name: (40001, 100))
    converge(Request(settings, docker=[("minji", 40001)]), known)
    assert owners(host)["/data/minji"] == (40001, 100, 0o700)

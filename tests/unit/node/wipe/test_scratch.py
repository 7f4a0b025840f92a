"""Scratch of those who leave goes by names and owners, whatever somebody does meanwhile; and the facts of a reset."""

import os
import pwd
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.documents import parse, to_plain
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.homes.trash import TRASH
from ansible_collections.gpuadmin.node.plugins.module_utils.people import Person
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import scratch, term_facts

from gpuadmin.common.records.people import HomeEntry, ScratchItem
from tests.support.failing import fail_for
from tests.support.storage import mounted, run


@pytest.mark.root
@pytest.mark.parametrize("inner", ["", "disk"])
def test_scratch_that_something_is_mounted_on_stays(tmp_path: Path, inner: str) -> None:
    """It was looked at with what is mounted there, so the inode is the right one."""
    shared, other = tmp_path / "shared", tmp_path / "other"
    for path in (shared / "minji" / inner, other):
        path.mkdir(parents=True)
    (other / "thesis").write_bytes(b"not there")
    for path in (shared / "minji", other, other / "thesis"):
        os.chown(path, 20001, 20001)
    people = [Person("minji", 20001, range(0))]
    run("mount", "--bind", other, shared / "minji" / inner)
    try:
        items = scratch.observe([str(shared)], None, people).items
        plan, done = scratch.wipe(scratch.Request(items, [str(shared)], people))
        assert "is mounted there" in plan.conflicts[0]
        assert done == {}
        assert (other / "thesis").exists()
    finally:
        run("umount", shared / "minji" / inner)


def test_scratch_on_a_network_is_not_this_node_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "minji").mkdir()
    me = [Person("minji", tmp_path.stat().st_uid, range(0))]
    monkeypatch.setattr(scratch, "_look", lambda found, directory, *_: found.unknown.update({directory: 1}))
    assert scratch.observe([str(tmp_path)], None, me).unknown == {str(tmp_path): 1}
    monkeypatch.setattr(scratch.mounts, "network_filesystem", lambda path: "nfs4")
    assert scratch.observe([str(tmp_path)], None, me).unknown == {}


root_only = pytest.mark.root  # gives files to other users


# uids that nobody on this machine has
MINJI = Person("minji", 48211, range(2900000000, 2900065536))


JIHO = Person("jiho", 48212, range(2900065536, 2900131072))


def leave(directory: Path, name: bytes, uid: int, *inner: tuple[str, int]) -> Path:
    path = directory / os.fsdecode(name)
    path.mkdir()
    for one, owner in inner:
        (path / one).write_bytes(b"x")
        os.chown(path / one, owner, owner)
    os.chown(path, uid, uid)
    return path


@root_only
def test_scratch_goes_by_names_and_owners(tmp_path: Path) -> None:
    shared, docker = tmp_path / "shared", tmp_path / "docker"
    shared.mkdir()
    docker.mkdir()
    hostile = leave(shared, b"new\nline \xff%41", MINJI.uid, ("a", MINJI.uid), ("b", MINJI.subids.start + 7))
    mixed = leave(shared, b"mixed", MINJI.uid, ("mine", MINJI.uid), ("theirs", JIHO.uid))
    leave(shared, b"strange", MINJI.uid, ("theirs", pwd.getpwnam("nobody").pw_uid))
    theirs = leave(shared, b"theirs", JIHO.uid)
    leave(docker, b"minji", MINJI.uid, ("layer", MINJI.subids.start + 1000))
    leave(docker, b"other-name", MINJI.uid)
    (shared / "link").symlink_to("/etc/passwd")
    os.chown(shared / "link", MINJI.uid, MINJI.uid, follow_symlinks=False)
    found = scratch.observe([str(shared)], str(docker), [MINJI, JIHO])
    assert found.unknown == {str(docker): 1}
    mine = [item for item in found.items if item.user == "minji"]
    assert [parse(ScratchItem, one, "item") for one in to_plain(mine)] == mine
    request = scratch.Request(mine, [str(shared), str(docker)], [MINJI])
    check = scratch.observe_and_compute(request)
    assert hostile.exists()
    plan, done = scratch.wipe(request)
    assert plan.operations == check.operations
    assert not hostile.exists()
    assert theirs.exists()
    assert [path.name for path in mixed.iterdir()] == ["theirs"]
    assert plan.conflicts == [
        f"{shared}/mixed: 1 entry stays: 'theirs' belongs to uid {JIHO.uid}",
        f"{shared}/strange: 1 entry stays: 'theirs' belongs to nobody (uid {pwd.getpwnam('nobody').pw_uid})",
    ]
    assert sorted(path.name for path in docker.iterdir()) == ["other-name"]
    assert Path("/etc/passwd").exists()
    assert not (shared / "link").is_symlink()
    assert done[f"{docker}/minji"].deleted == 2


@root_only
def test_scratch_that_is_gone_does_not_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on disk before it is said: after a power cut nobody would look for it again."""
    leave(tmp_path, b"a", MINJI.uid)
    item = scratch.observe([str(tmp_path)], None, [MINJI]).items[0]
    synced: list[tuple[str, bool]] = []
    monkeypatch.setattr(scratch, "sync_filesystem", lambda path: synced.append((path, (tmp_path / "a").exists())))
    scratch.wipe(scratch.Request([item], [str(tmp_path)], [MINJI]))
    assert synced == [(str(tmp_path), False)]


@contextmanager
def busy(code: str, *arguments: object) -> Iterator[None]:
    """A process of somebody else's that is at work meanwhile."""
    words = [sys.executable, "-c", f"import os, sys, time\n{code}", *map(str, arguments)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


CHURN = """
os.chdir(sys.argv[1]); number = 0
while True:
    for one in range(50): open(f"churn{number}-{one}", "w").close()
    for one in range(50): os.unlink(f"churn{number}-{one}")
    number += 1
    print(number, flush=True) if number == 2 else None
"""


SWAP = """
os.chdir(sys.argv[1]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2])); print("ready", flush=True)
while True:
    for act in (lambda: os.mkdir("a/in"), lambda: os.rename("a/in", "theirs/in"), lambda: os.symlink("/etc", "a/in"),
                lambda: os.unlink("a/in"), lambda: os.rename("theirs/in", "a/in"), lambda: os.mkdir("a/in/inner"),
                lambda: open("a/in/file", "w").close()):
        try: act()
        except OSError: pass
"""


@root_only
def test_facts_of_a_directory_that_is_never_still(tmp_path: Path) -> None:
    leave(tmp_path, b"a", MINJI.uid)
    with busy(CHURN, tmp_path):
        for _ in range(100):
            found = scratch.observe([str(tmp_path)], None, [MINJI])
            assert [item.name for item in found.items] == ["a"]
            assert found.problems == {}


@root_only
def test_a_race_for_one_entry_keeps_that_one_and_no_other(tmp_path: Path) -> None:
    """A directory that everybody may write in: somebody else moves what is in it while it is deleted."""
    leave(tmp_path, b"theirs", JIHO.uid)
    for _ in range(10):
        if not (tmp_path / "a").exists():
            leave(tmp_path, b"a", MINJI.uid).chmod(0o777)
        leave(tmp_path, b"z", MINJI.uid, ("mine", MINJI.uid))
        items = scratch.observe([str(tmp_path)], None, [MINJI]).items
        with busy(SWAP, tmp_path, JIHO.uid):
            time.sleep(0.05)  # the swapping has begun
            plan, done = scratch.wipe(scratch.Request(items, [str(tmp_path)], [MINJI]))
        assert sorted(done) == [f"{tmp_path}/a", f"{tmp_path}/z"]
        assert not (tmp_path / "z").exists()
        assert all(one.startswith(f"{tmp_path}/a: ") for one in plan.conflicts)
        assert Path("/etc/passwd").exists()


@root_only
@pytest.mark.parametrize("error", [NodeError("'a/in' was moved while it was looked at"), OSError(40, "Too many links")])
def test_an_entry_that_cannot_be_deleted_is_named_with_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    leave(tmp_path, b"a", MINJI.uid)
    leave(tmp_path, b"b", JIHO.uid)
    items = scratch.observe([str(tmp_path)], None, [MINJI, JIHO]).items
    fail_for(monkeypatch, scratch, "purge", lambda handle, name, judge: name == b"a", error)
    plan, done = scratch.wipe(scratch.Request(items, [str(tmp_path)], [MINJI, JIHO]))
    assert (plan.entries[f"{tmp_path}/a"].user, plan.entries[f"{tmp_path}/a"].status) == ("minji", "conflict")
    assert done[f"{tmp_path}/a"].kept == 1
    assert not (tmp_path / "b").exists()


@root_only
def test_who_makes_a_million_entries_fills_nobody_s_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "MOST_ITEMS", 3)
    for number in range(5):
        leave(tmp_path, b"%d" % number, MINJI.uid)
    leave(tmp_path, b"theirs", JIHO.uid)
    found = scratch.observe([str(tmp_path)], None, [MINJI, JIHO])
    assert [item.user for item in found.items].count("minji") == 3
    assert [item.name for item in found.items if item.user == "jiho"] == ["theirs"]
    assert found.problems == {f"{tmp_path}: minji": "has 5 entries there: 3 are named, the others stay for another run"}


@root_only
def test_a_directory_that_cannot_be_listed_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    bad.mkdir()
    leave(tmp_path, b"good", 0)
    leave(good, b"a", MINJI.uid)
    fail_for(monkeypatch, os, "scandir", lambda path: os.fsdecode(path) == str(bad), OSError(5, "Input/output error"))
    found = scratch.observe([str(bad), str(good)], None, [MINJI])
    assert [item.name for item in found.items] == ["a"]
    assert "Input/output error" in found.problems[str(bad)]


@root_only
def test_scratch_that_is_not_what_was_decided(tmp_path: Path) -> None:
    leave(tmp_path, b"a", MINJI.uid)
    item = scratch.observe([str(tmp_path)], None, [MINJI]).items[0]
    outside = tmp_path.parent
    for change, words in (
        ({"inode": 1}, "another thing"),
        ({"uid": JIHO.uid}, "does not belong"),
        ({"user": "jiho"}, "does not belong"),
        ({"name": "..%2fetc"}, "not a name"),
        ({"name": ".."}, "not a name"),
        ({"name": ""}, "not a name"),
        ({"name": "a%00"}, "not a name"),
        ({"directory": str(outside)}, "not a directory that is wiped"),
    ):
        request = scratch.Request([replace(item, **change)], [str(tmp_path)], [MINJI])
        plan, _done = scratch.wipe(request)
        assert words in plan.conflicts[0], change
    (tmp_path / "link").symlink_to(tmp_path)
    assert scratch.observe([f"{tmp_path}/link"], None, [MINJI]).items == []
    request = scratch.Request([replace(item, directory=f"{tmp_path}/link")], [f"{tmp_path}/link"], [MINJI])
    assert "not a directory" in scratch.wipe(request)[0].conflicts[0]
    os.chown(tmp_path / "a", MINJI.subids.start, -1)  # the same inode, and still one of theirs
    assert "another thing" in scratch.wipe(scratch.Request([item], [str(tmp_path)], [MINJI]))[0].conflicts[0]
    assert (tmp_path / "a").exists()


def test_the_whole_system_is_nobody_s_scratch() -> None:
    facts = Path("/tmp").stat()
    item = ScratchItem("minji", MINJI.uid, "/", "tmp", inode=facts.st_ino)
    for directory in ("/", f"{os.sep}tmp/..", "tmp"):
        request = scratch.Request([replace(item, directory=directory)], [directory], [MINJI])
        assert "not a directory that is wiped" in scratch.observe_and_compute(request).conflicts[0]


@pytest.mark.btrfs
def test_a_subvolume_goes_and_one_that_was_made_anew_does_not(tmp_path: Path) -> None:
    """Where people have an amount of Docker's data their place is one, and the roots of all have the same inode."""
    with mounted(tmp_path / "image", tmp_path / "disk", 128) as docker:
        for one in (MINJI, JIHO):
            run("btrfs", "subvolume", "create", docker / one.name)
            (docker / one.name / "layer").write_text("x")
            os.chown(docker / one.name / "layer", one.subids.start, one.subids.start)
            os.chown(docker / one.name, one.uid, one.uid)
        items = scratch.observe([], str(docker), [MINJI, JIHO]).items
        request = scratch.Request(items, [str(docker)], [MINJI, JIHO])
        run("btrfs", "subvolume", "delete", docker / "jiho")
        run("btrfs", "subvolume", "create", docker / "jiho")
        os.chown(docker / "jiho", JIHO.uid, JIHO.uid)
        plan, _done = scratch.wipe(request)
        assert plan.conflicts == [f"{docker}/jiho: is another thing than when it was decided"]
        assert [one.name for one in docker.iterdir()] == ["jiho"]


@root_only
def test_what_the_system_owns_is_nobody_s_scratch(tmp_path: Path) -> None:
    """Whatever users.yml says: a uid below 1000 is the system's."""
    for name, uid in (("socket", 0), ("cache", 999), ("a", MINJI.uid)):
        leave(tmp_path, name.encode(), uid)
    people = [MINJI, Person("toor", 0, range(0)), Person("daemon", 999, range(0))]
    found = scratch.observe([str(tmp_path)], None, people)
    assert [(item.name, item.user) for item in found.items] == [("a", "minji")]
    assert found.unknown == {}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("minji", TRASH, ".gpuadmin-restoring"):
        (tmp_path / "homes" / name).mkdir(parents=True, mode=0o700)
    (tmp_path / "homes").chmod(0o755)
    (tmp_path / "homes/odd\udcff").write_text("")
    return tmp_path / "homes"


@pytest.mark.root
@pytest.mark.holds("what people share is nobody's home, and no reset deletes it")
def test_homes_with_what_keeps_them(root: Path) -> None:
    mountinfo = f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {root.parent} rw - btrfs /dev/b rw\n"
    mountinfo += f"3 2 0:3 / {root}/minji/disk rw - ext4 /dev/c rw\n"
    found = term_facts.of_homes(str(root), None, mountinfo)
    assert sorted(found) == ["minji", "odd\\xff"]
    (root / "_shared-papers").mkdir()
    assert sorted(term_facts.of_homes(str(root), None, mountinfo)) == ["minji", "odd\\xff"]
    me = os.getuid()
    assert found["minji"] == HomeEntry("directory", me, f"{root}/minji/disk is mounted inside", "minji")
    assert found["odd\\xff"].problem is None


def test_no_home_root_is_not_no_homes(tmp_path: Path) -> None:
    mountinfo = f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {tmp_path} rw - btrfs /dev/b rw\n"
    with pytest.raises(NodeError, match="there is no"):
        term_facts.of_homes(str(tmp_path / "homes"), None, mountinfo)


@pytest.mark.root
def test_homes_that_have_no_snapshots_are_told() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as given:
        base = Path(given)
        (base / "homes").mkdir(mode=0o755)
        (base / "backups").mkdir(mode=0o700)
        found = term_facts.collect([], home_root=str(base / "homes"), backup_directory=str(base / "backups"))
        assert found["no_snapshots"] == f"{base}/homes is not on btrfs: there are no snapshots of it"
        assert "no_snapshots" not in term_facts.collect([], backup_directory=str(base / "backups"))


def test_backups_that_others_can_reach_decide_nothing(tmp_path: Path) -> None:
    assert term_facts.of_backups(str(tmp_path)) == []
    tmp_path.chmod(0o755)
    with pytest.raises(NodeError, match="root alone"):
        term_facts.of_backups(str(tmp_path))


def test_free_bytes_are_those_of_the_disk_that_it_would_be_on(tmp_path: Path) -> None:
    space = os.statvfs(tmp_path)
    assert abs(term_facts.free(str(tmp_path / "a/b")) - space.f_bavail * space.f_frsize) < 1 << 30


def test_who_is_not_known_is_left_out() -> None:
    assert term_facts.identities(["root", "gpuadmin-nobody-has-this"]) == {"root": 0}


def test_what_a_host_does_not_have_is_not_in_its_facts() -> None:
    found = term_facts.collect([])
    assert set(found) == {"at", "boot", "processes"}
    assert found["boot"] == Path(term_facts.BOOT_ID).read_text().strip()

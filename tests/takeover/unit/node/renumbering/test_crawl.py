"""A walk over real trees: all that is in one, once, and nothing that is not."""

import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.takeover.node.renumbering import inode, trees
from gpuadmin.takeover.node.renumbering import walker as module
from gpuadmin.takeover.node.renumbering.crawl import crawl
from gpuadmin.takeover.node.renumbering.inode import Changer
from gpuadmin.takeover.node.renumbering.journal import Plan, Renumbering
from gpuadmin.takeover.node.renumbering.task import Tally
from gpuadmin.takeover.node.renumbering.walker import Walker, _Level, is_hidden
from tests.support.deep_tree import descend, plant
from tests.support.storage import mounted, run

pytestmark = pytest.mark.root

OLD, NEW = 31001, 31002
PLAN = Plan.of([Renumbering("minji", OLD, NEW, OLD)])


def walk(top: Path, workers: int = 2, *, apply: bool = True) -> Tally:
    handle = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    with tempfile.TemporaryDirectory() as directory:
        try:
            return crawl(handle, PLAN.task(1, "tree", apply), workers=workers, directory=directory)
        finally:
            os.close(handle)


def own(*paths: Path) -> None:
    for path in paths:
        os.lchown(path, OLD, OLD)


def owner(path: Path) -> int:
    return path.lstat().st_uid


@pytest.mark.parametrize("workers", [1, 4])
def test_each_entry_once_however_many_walk(tmp_path: Path, workers: int) -> None:
    for number in range(300):
        place = tmp_path / "top" / f"a{number % 7}" / f"b{number % 31}" / f"c{number}"
        place.mkdir(parents=True)
        (place / "file").touch()
        (place / "link").symlink_to("/etc/passwd")
    everything = [tmp_path / "top", *(tmp_path / "top").rglob("*")]
    own(*everything)
    looked = walk(tmp_path / "top", workers, apply=False)
    assert (looked.seen, looked.uids[OLD][0], looked.changed) == (len(everything), len(everything), 0)
    assert walk(tmp_path / "top", workers).changed == len(everything)
    assert {owner(path) for path in everything} == {NEW}
    assert walk(tmp_path / "top", workers).changed == 0
    assert owner(Path("/etc/passwd")) == 0


@pytest.mark.holds("nobody's directory takes memory without end")
def test_a_directory_with_very_many_entries_is_gone_through_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inode, "MOST_BELOW", 7)
    monkeypatch.setattr(inode, "AT_ONCE", 5)
    for number in range(40):
        (tmp_path / f"d{number}/e{number % 3}").mkdir(parents=True)
        (tmp_path / f"program{number}").touch()
        own(tmp_path / f"d{number}", tmp_path / f"d{number}/e{number % 3}", tmp_path / f"program{number}")
        (tmp_path / f"program{number}").chmod(0o4755)
    held: list[int] = []
    careful, find_below = Changer.careful, Changer.find_below

    def noted(self: Changer, names: Sequence[str], *given: Any) -> None:
        held.append(len(names))
        careful(self, names, *given)

    def found(self: Changer, *given: Any) -> Any:
        some = find_below(self, *given)
        held.append(len(some[0]))
        return some

    monkeypatch.setattr(Changer, "careful", noted)
    monkeypatch.setattr(Changer, "find_below", found)
    assert walk(tmp_path, 1).changed == 120
    assert sorted(held, reverse=True)[:6] == [7] * 5 + [5]
    assert {owner(one) for one in tmp_path.rglob("*")} == {NEW}
    assert {(tmp_path / f"program{number}").stat().st_mode & 0o7777 for number in range(40)} == {0o4755}
    assert walk(tmp_path, 4, apply=False).uids == {}


def test_what_no_path_reaches_is_reached(tmp_path: Path) -> None:
    """Deeper than there are descriptors, and than a path may be long."""
    parts = ["d" * 30] * 1500
    plant(tmp_path, parts)
    here = descend(tmp_path, parts)
    os.chown("bottom", OLD, OLD, dir_fd=here)
    assert walk(tmp_path).changed == 1
    assert os.stat("bottom", dir_fd=here).st_uid == NEW
    os.close(here)
    subprocess.run(["rm", "-rf", str(tmp_path / parts[0])], check=True)


@pytest.mark.holds("the way up leads to where the renumbering came from")
def test_who_moves_a_deep_directory_leads_the_walk_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuadmin.takeover.node.renumbering.walker.KEPT_OPEN", 1)
    top, outside = tmp_path / "top", tmp_path / "outside"
    (top / "a/b/c/d").mkdir(parents=True)
    outside.mkdir()
    (outside / "roots").mkdir()
    own(outside / "roots")
    changer = Changer(PLAN.task(1, "tree", True), {})
    handle = os.open(top, os.O_RDONLY)
    walker = Walker(handle, changer)
    visit = changer.directory

    def visited(inner: int, facts: os.stat_result, above: Callable[[], str]) -> object:
        found = visit(inner, facts, above)
        if not found:  # the bottom: what is above it goes elsewhere now
            (top / "a/b/c").rename(outside / "c")
        return found

    monkeypatch.setattr(changer, "directory", visited)
    before = os.open(".", os.O_RDONLY)
    try:
        walker.walk("")
    finally:
        os.fchdir(before)
        os.close(before)
        os.close(handle)
    assert owner(outside / "roots") == OLD
    assert "was moved while it was looked at" in walker.tally.words[0]


@pytest.mark.holds(
    "what cannot be entered has not changed hands", "what cannot be taken up has not changed hands",
    "what cannot be listed has not changed hands",
)  # fmt: skip
@pytest.mark.parametrize("what", ["entered", "taken up", "listed"])
def test_what_a_disk_does_not_give_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    def broken(*_: object) -> int:
        raise OSError(5, "Input/output error")

    (tmp_path / "broken").mkdir()
    handle, before = os.open(tmp_path, os.O_RDONLY), os.open(".", os.O_RDONLY)
    walker = Walker(handle, Changer(PLAN.task(1, "tree", True), {}))
    with monkeypatch.context() as patched:
        patched.setattr(*((inode.os, "scandir") if what == "listed" else (module, "open_directory")), broken)
        try:
            walker.walk("broken" if what == "taken up" else "")
        finally:
            os.fchdir(before)
            os.close(before)
            os.close(handle)
    assert walker.tally.failed == 1
    assert "Input/output error" in walker.tally.words[0]


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "hidden"),
    [
        (0o700, 0, 0, True), (0o710, 0, 0, True), (0o760, 0, 1001, True), (0o710, 0, 1001, False),
        (0o701, 0, 0, False), (0o700, 1001, 0, False),
    ],
)  # fmt: skip
def test_where_none_but_root_gets_in(tmp_path: Path, mode: int, uid: int, gid: int, hidden: bool) -> None:
    os.chown(tmp_path, uid, gid)
    tmp_path.chmod(mode)
    handle = os.open(tmp_path, os.O_RDONLY)
    assert is_hidden(handle, os.fstat(handle)) is hidden
    os.close(handle)


@pytest.mark.btrfs
@pytest.mark.holds("no person keeps old ids in a read-only subvolume", "people reach no file that keeps the old ids")
def test_a_read_only_subvolume_hides_no_program(tmp_path: Path) -> None:
    """Whoever keeps one with a setuid program of theirs would be the next owner of their old uid."""
    with mounted(tmp_path / "image", tmp_path / "point", 200) as point:
        for name, mode in (("theirs", 0o700), ("backups", 0o700), ("open", 0o755)):
            (point / name).mkdir(mode=mode)
        own(point / "theirs")
        run("btrfs", "subvolume", "create", point / "home")
        (point / "home/program").touch()
        own(point / "home", point / "home/program")
        (point / "home/program").chmod(0o4755)
        for name in ("theirs", "backups", "open"):
            run("btrfs", "subvolume", "snapshot", "-r", point / "home", point / name / "kept")
        look = walk(point, apply=False)
        assert (look.snapshots, look.within_reach) == (2, ["'open/kept'"])
        assert look.words == ["'theirs/kept' is read-only, and becomes writable"]
        handle, before = os.open(point, os.O_RDONLY), os.open(".", os.O_RDONLY)
        walker = Walker(handle, Changer(PLAN.task(1, "tree", False), {}))
        walker.walk("backups")  # as another process does that takes it up
        os.fchdir(before)
        os.close(before)
        os.close(handle)
        assert (walker.tally.snapshots, walker.tally.within_reach) == (1, [])
        assert walk(point).failed == 0
        owners = [owner(point / name / "kept/program") for name in ("theirs", "backups", "open")]
        assert owners == [NEW, OLD, OLD]
        assert (point / "theirs/kept/program").stat().st_mode & 0o7777 == 0o4755


@pytest.mark.btrfs
@pytest.mark.holds(
    "a person's own is theirs in a directory for everybody, too",
    "who gets in by a system group or an ACL reaches what is in there",
)
def test_a_read_only_subvolume_in_a_directory_for_everybody_hides_no_program(tmp_path: Path) -> None:
    """Made after the look it would stay: the boot asks nobody. Before the look, it would be in everybody's way."""
    with mounted(tmp_path / "image", tmp_path / "point", 200) as point:
        for name, mode, gid in (("tmp", 0o1777, 0), ("users", 0o750, 100), ("acl", 0o750, 0), ("roots", 0o750, 0)):
            (point / name).mkdir()
            os.chown(point / name, 0, gid)
            (point / name).chmod(mode)
            run("btrfs", "subvolume", "create", point / name / "kept")
            (point / name / "kept/program").touch()
            own(point / name / "kept", point / name / "kept/program")
            (point / name / "kept/program").chmod(0o4755)
            run("btrfs", "property", "set", "-ts", point / name / "kept", "ro", "true")
        entries = [(0x01, 7, -1), (0x02, 5, OLD), (0x04, 0, -1), (0x10, 5, -1), (0x20, 0, -1)]
        value = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *one) for one in entries)
        os.setxattr(point / "acl", "system.posix_acl_access", value)
        assert sorted(walk(point, apply=False).within_reach) == ["'acl/kept'", "'users/kept'"]
        assert walk(point).failed == 0
        assert owner(point / "tmp/kept/program") == NEW
        assert (point / "tmp/kept/program").stat().st_mode & 0o7777 == 0o4755


@pytest.mark.holds("nobody's name makes what a host says too long to be heard")
@pytest.mark.parametrize("name", ["\udcff" * 200, "\U000e0001" * 60, "x" * 200])
def test_a_name_of_somebodys_makes_no_line_too_long(name: str) -> None:
    """The controller refuses an answer that has one, and with it the whole host."""
    tally = Tally()
    tally.note(f"/home/jiho/{name}", "is read-only, and becomes writable")
    tally.reach(name)
    assert max(map(len, tally.words + tally.within_reach)) < 500


@pytest.mark.btrfs
@pytest.mark.holds("what is mounted inside is not renumbered with it")
def test_subvolumes_are_entered_and_mounts_and_snapshots_are_not(tmp_path: Path) -> None:
    with mounted(tmp_path / "image", tmp_path / "point", 200) as point:
        run("btrfs", "subvolume", "create", point / "inner")
        (point / "inner/file").touch()
        (point / "hidden").mkdir()
        own(point / "inner", point / "inner/file", point / "hidden")
        run("btrfs", "subvolume", "snapshot", "-r", point / "inner", point / "backup")
        run("mount", "-t", "tmpfs", "tmpfs", point / "hidden")
        (point / "hidden/other").touch()
        own(point / "hidden", point / "hidden/other")
        found = walk(point)
        assert (found.snapshots, found.failed) == (1, 0)
        assert [owner(point / name) for name in ("inner", "inner/file")] == [NEW] * 2
        assert [owner(point / name) for name in ("backup", "backup/file", "hidden", "hidden/other")] == [OLD] * 4
        run("umount", point / "hidden")


PROGRAM = """
import os, sys
sys.path[:0] = sys.argv[1:3]
from gpuadmin.takeover.node.renumbering import trees
trees.RUN = sys.argv[3]
with trees.detach([trees.Tree("x", one) for one in sys.argv[4:]]) as handles:
    print([sorted(os.listdir(one)) for one in handles], [trees.is_read_only(one) for one in handles])
"""


def test_what_a_mount_hides_is_seen_and_what_is_mounted_is_not(tmp_path: Path) -> None:
    point, private = tmp_path / "point", tmp_path / "run"
    for path in (point, private):
        path.mkdir(mode=0o700)
    run("mount", "-t", "tmpfs", "tmpfs", point)
    try:
        (point / "home/before").mkdir(parents=True)
        run("mount", "-t", "tmpfs", "-o", "ro", "tmpfs", point / "home")
        root = Path(trees.__file__).parents[4]
        words = [str(root), str(root / "gpuadmin/collections"), str(private), str(point), str(point / "home")]
        found = run("python3", "-c", PROGRAM, *words)
        assert found.strip() == "[['home'], []] [False, True]"
        assert list(private.iterdir()) == []
    finally:
        run("umount", "-R", point)


@pytest.mark.holds("a directory that was exchanged on the way in is not renumbered")
def test_another_directory_than_the_one_that_was_seen_is_not_entered(tmp_path: Path) -> None:
    for name in ("seen", "other"):
        (tmp_path / name).mkdir()
    facts = (tmp_path / "seen").lstat()
    (tmp_path / "seen").rename(tmp_path / "gone")
    (tmp_path / "other").rename(tmp_path / "seen")
    handle = os.open(tmp_path, os.O_RDONLY)
    walker = Walker(handle, Changer(PLAN.task(1, "tree", True), {}))
    level = _Level("", handle, tmp_path.lstat(), [])
    walker.path, walker.levels = "", [level]
    assert walker._enter("seen", facts, level) == -1
    os.close(handle)
    assert walker.tally.failed == 1
    assert "'seen' was exchanged" in walker.tally.words[0]


def test_a_file_of_anybody_s_with_more_attributes_than_can_be_listed(tmp_path: Path) -> None:
    """Any person can make such a one: it stops nobody's renumbering, and its ACL is moved all the same."""

    def acl(uid: int) -> bytes:
        nobody = 2**32 - 1
        entries = [(1, 7, nobody), (2, 4, uid), (4, 5, nobody), (16, 7, nobody), (32, 0, nobody)]
        return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)

    run("mount", "-t", "tmpfs", "tmpfs", tmp_path)
    try:
        odd = tmp_path / "odd"
        odd.touch()
        os.setxattr(odd, "system.posix_acl_access", acl(OLD))
        for number in range(300):
            os.setxattr(odd, f"user.{number:03d}{'x' * 240}", b"")
        with pytest.raises(OSError, match="Argument list too long"):
            os.listxattr(odd)
        tally = walk(tmp_path, 1)
        assert (tally.failed, tally.acls) == (0, 1)
        assert os.getxattr(odd, "system.posix_acl_access") == acl(NEW)
    finally:
        run("umount", tmp_path)


ORPHAN = """
import os, sys, time
sys.path[:0] = sys.argv[1:3]
from gpuadmin.takeover.node.renumbering.crawl import _end_with
us = os.getpid()
if os.fork() == 0:
    _end_with(us)
    print(os.getpid(), flush=True)
time.sleep(100)
"""


@pytest.mark.holds("no process of a walk goes on after the one that began it")
def test_who_walks_ends_with_the_one_that_began_it() -> None:
    root = Path(trees.__file__).parents[4]
    words = [sys.executable, "-c", ORPHAN, str(root), str(root / "gpuadmin/collections")]
    with subprocess.Popen(words, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
    end = time.monotonic() + 20
    while Path(f"/proc/{child}/stat").exists() and ") Z" not in Path(f"/proc/{child}/stat").read_text():
        assert time.monotonic() < end, "it goes on"
        time.sleep(0.05)  # the kernel's signal is on its way

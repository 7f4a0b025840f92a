"""Inodes that change hands, with what they have to lose."""

import os
import stat
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import inode_flags

from gpuadmin.takeover.node.renumbering.crawl import crawl
from gpuadmin.takeover.node.renumbering.inode import Changer
from gpuadmin.takeover.node.renumbering.journal import Plan, Renumbering
from gpuadmin.takeover.node.renumbering.special import (
    Flight,
    Known,
    Special,
    select_tree,
)
from gpuadmin.takeover.node.renumbering.task import Tally

pytestmark = pytest.mark.root
MINJI, NEW, KIM = 31001, 31005, 33000
CAPABILITY = struct.pack("<IIIII", 0x02000001, 0x2000, 0, 0, 0)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A directory of somebody's who is not renumbered."""
    found = tmp_path / "top"
    found.mkdir()
    os.chown(found, KIM, KIM)
    return found


def file(path: Path, owner: int = MINJI) -> Path:
    path.touch()
    os.chown(path, owner, owner)
    return path


def walk(top: Path, *, apply: bool = True, known: Known | None = None) -> Tally:
    """One walk that gives minji's inodes their new uid, or looks."""
    plan = Plan.of([Renumbering("minji", MINJI, NEW, MINJI)])
    handle = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return crawl(handle, plan.task(1, "x", apply), workers=1, known=known or {}, directory=str(top.parent))
    finally:
        os.close(handle)


def owner(path: Path) -> int:
    return path.lstat().st_uid


@pytest.mark.holds("nothing is given away through a link")
def test_a_link_changes_hands_and_what_it_leads_to_does_not(top: Path, tmp_path: Path) -> None:
    """It may lead to where another host has the files, where an id means somebody else."""
    elsewhere = file(tmp_path / "elsewhere")
    (top / "link").symlink_to(elsewhere)
    os.lchown(top / "link", MINJI, MINJI)
    assert walk(top).changed == 1
    assert (owner(top / "link"), owner(elsewhere)) == (NEW, MINJI)


@pytest.mark.needs("chattr")
@pytest.mark.holds("immutable stays immutable", "setuid stays setuid", "a capability stays")
def test_what_an_inode_has_to_lose_it_has_afterwards(top: Path) -> None:
    still, setuid, setgid, capable = (file(top / name) for name in ("still", "setuid", "setgid", "capable"))
    setuid.chmod(0o4755)
    setgid.chmod(0o2755)
    os.setxattr(capable, "security.capability", CAPABILITY)
    subprocess.run(["chattr", "+i", str(still)], check=True)
    try:
        found = walk(top)
        handle = inode_flags.opened(str(still))
        flags = inode_flags.read_inode_flags(handle)
        os.close(handle)
    finally:
        subprocess.run(["chattr", "-i", str(still)], check=True)
    assert (found.failed, found.changed) == (0, 4)
    assert flags & inode_flags.STOPS
    assert stat.S_IMODE(setuid.stat().st_mode) == 0o4755
    assert stat.S_IMODE(setgid.stat().st_mode) == 0o2755
    assert os.getxattr(capable, "security.capability") == CAPABILITY
    assert {owner(one) for one in (still, setuid, setgid, capable)} == {NEW}


def test_what_names_somebody_in_a_file_of_another_s_changes(top: Path) -> None:
    """An ACL, and a capability of a user namespace; the file itself changes hands no more than its other bits."""
    nobody = 2**32 - 1
    entries = [(0x01, 6, nobody), (0x02, 6, MINJI), (0x04, 0, nobody), (0x10, 6, nobody), (0x20, 0, nobody)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)
    shared, capable = file(top / "shared", KIM), file(top / "capable", KIM)
    os.setxattr(shared, "system.posix_acl_access", acl)
    os.setxattr(capable, "security.capability", struct.pack("<IIIIII", 0x03000001, 0x2000, 0, 0, 0, MINJI))
    assert walk(top).failed == 0
    moved = os.getxattr(shared, "system.posix_acl_access")
    assert struct.pack("<I", NEW) in moved
    assert struct.pack("<I", MINJI) not in moved
    assert os.getxattr(capable, "security.capability")[20:] == struct.pack("<I", NEW)
    assert {owner(shared), owner(capable)} == {KIM}


@pytest.mark.needs("chattr")
@pytest.mark.holds("what a cut has left without its bits, or its flags, gets them again")
def test_what_a_cut_has_taken_from_an_inode_it_gets_again(top: Path) -> None:
    changed, still = file(top / "changed", NEW), file(top / "still")
    owners = ((MINJI, MINJI), (NEW, NEW))
    specials = [
        Special(1, "x", "changed", changed.stat().st_ino, owners, 0o4755, written=changed.stat().st_mtime_ns),
        Special(1, "x", "still", still.stat().st_ino, owners, flags=0x10, written=still.stat().st_mtime_ns),
    ]
    found = walk(top, known=select_tree(specials, 1, "x"))
    handle = inode_flags.opened(str(still))
    flags = inode_flags.read_inode_flags(handle)
    os.close(handle)
    subprocess.run(["chattr", "-i", str(still)], check=True)
    assert (found.failed, found.changed) == (0, 2)
    assert (owner(changed), stat.S_IMODE(changed.stat().st_mode)) == (NEW, 0o4755)
    assert (owner(still), flags & inode_flags.STOPS) == (NEW, 0x10)


@pytest.mark.holds("what is nobody's keeps all out")
@pytest.mark.parametrize(("owner", "failed", "stuck"), [(KIM, 1, []), (MINJI, 0, [("gid", MINJI), ("uid", MINJI)])])
def test_what_cannot_be_given_back_is_a_failure_of_those_whose_it_is(
    top: Path, monkeypatch: pytest.MonkeyPatch, owner: int, failed: int, stuck: list[tuple[str, int]]
) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    changed = file(top / "changed", NEW)
    facts = changed.stat()
    one = Special(1, "x", "changed", facts.st_ino, ((owner, owner), (NEW, NEW)), 0o4755, written=facts.st_mtime_ns)
    monkeypatch.setattr(os, "chmod", fail)
    found = walk(top, known=select_tree([one], 1, "x"))
    assert (found.failed, sorted(found.stuck), found.changed) == (failed, stuck, 0)


@pytest.mark.holds(
    "what an inode would lose is written down before it changes hands",
    "what is whole is written down no more",
)
def test_what_is_written_down_before_and_forgotten_after(top: Path) -> None:
    program, events = file(top / "program"), list[tuple[str, int]]()
    program.chmod(0o4755)

    class Noted(Flight):
        def write(self, specials: Iterable[Special]) -> None:
            events.extend((one.path, owner(program)) for one in specials)

        def clear(self) -> None:
            events.append(("clear", owner(program)))

    task = Plan.of([Renumbering("minji", MINJI, NEW, MINJI)]).task(1, "x", True)
    handle, before = os.open(top, os.O_RDONLY), os.open(".", os.O_RDONLY)
    try:
        Changer(task, {}, Noted(-1, lambda: None)).directory(handle, os.fstat(handle), lambda: "")
    finally:
        os.fchdir(before)
        os.close(before)
        os.close(handle)
    assert events == [("program", MINJI), ("clear", NEW)]


@pytest.mark.holds("a look changes nothing")
def test_a_look_leaves_what_has_something_to_lose(top: Path) -> None:
    program = file(top / "program")
    program.chmod(0o4755)
    os.setxattr(program, "security.capability", CAPABILITY)
    plain = file(top / "plain")
    found = walk(top, apply=False)
    assert (found.changed, found.uids, owner(plain)) == (0, {MINJI: [2, 0]}, MINJI)
    assert (owner(program), stat.S_IMODE(program.stat().st_mode)) == (MINJI, 0o4755)

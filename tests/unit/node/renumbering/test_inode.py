"""Inodes that change hands while somebody acts: each moment on purpose, none by luck."""

import os
import stat
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import inode_flags
from ansible_collections.gpuadmin.node.plugins.module_utils.renumbering.crawl import crawl
from ansible_collections.gpuadmin.node.plugins.module_utils.renumbering.journal import Renumbering
from ansible_collections.gpuadmin.node.plugins.module_utils.renumbering.special import Specials
from ansible_collections.gpuadmin.node.plugins.module_utils.renumbering.sweeping import Plan
from ansible_collections.gpuadmin.node.plugins.module_utils.renumbering.task import Tally

pytestmark = pytest.mark.root
MINJI, NEW, KIM = 31001, 31005, 33000
CAPABILITY = struct.pack("<IIIII", 0x02000001, 0x2000, 0, 0, 0)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A directory of somebody's who is not renumbered and has processes: nothing in it is quiet."""
    found = tmp_path / "top"
    found.mkdir()
    os.chown(found, KIM, KIM)
    return found


def file(path: Path, owner: int = MINJI) -> Path:
    path.touch()
    os.chown(path, owner, owner)
    return path


def walk(top: Path) -> Tally:
    """One walk that gives minji's inodes their new uid."""
    plan = Plan.of([Renumbering("minji", MINJI, NEW, MINJI)])
    handle = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    specials = Specials(handle=os.open(top.parent / "specials", os.O_RDWR | os.O_CREAT | os.O_APPEND))
    try:
        return crawl(handle, plan.task(1, "x", True), specials, workers=1)
    finally:
        os.close(specials.handle)
        os.close(handle)


def owner(path: Path) -> int:
    return path.lstat().st_uid


Chown = Callable[..., None]


def before_chown(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Have somebody act once, between the look at an inode and its change."""
    for name in ("chown", "lchown"):
        real: Chown = getattr(os, name)

        def acted(path: str, uid: int, gid: int, real: Chown = real) -> None:
            monkeypatch.undo()
            act()
            real(path, uid, gid)

        monkeypatch.setattr(os, name, acted)


@pytest.mark.holds("what somebody can exchange meanwhile is opened before it is given away")
def test_what_is_exchanged_between_look_and_change_is_not_given_away(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hers, secret = file(top / "hers"), file(tmp_path / "secret", 0)

    def act() -> None:
        hers.rename(top / "kept")
        os.link(secret, hers)

    before_chown(monkeypatch, act)
    assert walk(top).changed == 1
    assert (owner(secret), owner(top / "kept")) == (0, NEW)


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
@pytest.mark.parametrize("quiet", [True, False])
def test_what_an_inode_has_to_lose_it_has_afterwards(top: Path, quiet: bool) -> None:
    if quiet:
        os.chown(top, MINJI, MINJI)
    still, setuid, setgid, capable = (file(top / name) for name in ("still", "setuid", "setgid", "capable"))
    setuid.chmod(0o4755)
    setgid.chmod(0o2755)
    os.setxattr(capable, "security.capability", CAPABILITY)
    subprocess.run(["chattr", "+i", str(still)], check=True)
    try:
        found = walk(top)
        handle = inode_flags.opened(str(still))
        flags = inode_flags.flags_of(handle)
        os.close(handle)
    finally:
        subprocess.run(["chattr", "-i", str(still)], check=True)
    assert (found.failed, found.changed) == (0, 5 if quiet else 4)
    assert flags & inode_flags.STOPS
    assert stat.S_IMODE(setuid.stat().st_mode) == 0o4755
    assert stat.S_IMODE(setgid.stat().st_mode) == 0o2755
    assert os.getxattr(capable, "security.capability") == CAPABILITY
    assert {owner(one) for one in (still, setuid, setgid, capable)} == {NEW}

"""Every write of ours below a limit that people have used up: done, or refused whole, and done when there is room.

Limits and amounts: test_room.py, test_place_amounts.py. A wipe of homes: test_room.py.
"""

import errno
import os
import pwd
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import files, qgroups
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import admin
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set, restore
from ansible_collections.gpuadmin.node.plugins.module_utils.disk import amount_notices, owned
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import creating
from ansible_collections.gpuadmin.node.plugins.module_utils.limits import amounts, place_amounts, room
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.amounts import Amounts
from ansible_collections.gpuadmin.node.plugins.module_utils.people import Person
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import scratch

from tests.support.people_disk import MINJI, Disk, disk
from tests.support.storage import SECOND, Storage, run, wanted

__all__ = ["disk"]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEwH0f5bI8ZzvWgIbc5uK1h6H8l2fFrj1v6J2p7mWb2T"
JIHO = 20002


@dataclass
class Full:
    """Homes and Docker's data of minji, and room for nothing."""

    disk: Disk
    storage: Storage

    @property
    def docker(self) -> Path:
        return self.disk.local / ".docker"

    def entries(self) -> list[str]:
        return sorted(str(one) for top in (self.storage.root, self.disk.local) for one in top.rglob("*"))


@pytest.fixture
def full(disk: Disk) -> Full:
    storage = Storage(disk.top)
    disk.wanted = replace(disk.wanted, paths=[*disk.wanted.paths, str(storage.root)])
    assert disk.keep().problems == []
    docker = Amounts(docker="100M", data=str(disk.local / ".docker"))
    assert place_amounts.hold(disk.places, docker).problems == []
    amounts.make_place(f"{docker.data}/minji", "minji", MINJI, MINJI, disk.places.state)
    assert place_amounts.follow(disk.places) == []
    storage.home("minji", MINJI, {"thesis": os.urandom(4 << 20)})
    (disk.local / ".docker/minji/image").write_bytes(os.urandom(4 << 20))
    os.chown(disk.local / ".docker/minji/image", MINJI, MINJI)
    return Full(disk, storage)


@contextmanager
def used_up(disk: Disk, most: str = "1M") -> Iterator[None]:
    run("btrfs", "filesystem", "sync", disk.top)
    run("btrfs", "qgroup", "limit", most, qgroups.GROUP, disk.top)
    yield
    run("btrfs", "qgroup", "limit", "none", qgroups.GROUP, disk.top)


def place(full: Full) -> list[Path]:
    amounts.make_place(str(full.docker / "jiho"), "jiho", JIHO, JIHO, full.disk.places.state)
    return [full.docker / "jiho"]


def directory(full: Full) -> list[Path]:
    files.make_directory(str(full.docker / "jiho"), 0o700, JIHO, JIHO)
    return [full.docker / "jiho"]


def home(full: Full) -> list[Path]:
    creating.create(str(full.storage.root), [("jiho", JIHO, JIHO)], "/none", subvolume=False)
    return [full.storage.root / "jiho"]


def admins_key(full: Full) -> list[Path]:
    at = full.storage.root / "minji"
    admin.add_key(str(at), KEY, MINJI, MINJI)
    return [at / ".ssh", at / ".ssh/authorized_keys"]


def numbers(full: Full) -> list[Path]:
    amount_notices._converge(str(full.storage.root / amounts.OF_HOMES), {"minji.json": ("minji", "{}")})
    return [full.storage.root / amounts.OF_HOMES / "minji.json"]


def restored(full: Full) -> list[Path]:
    done = restore.execute(wanted(full.storage))
    return [Path(str(done["target"])), Path(str(done["target"])) / "thesis"]


@pytest.mark.btrfs
@pytest.mark.parametrize("act", [place, directory, home, admins_key, numbers, restored])
def test_what_is_refused_is_not_there_and_done_when_there_is_room(
    full: Full, act: Callable[[Full], list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pwd, "getpwnam", lambda name: pwd.struct_passwd((name, "x", MINJI, 0, "", "", "")))
    monkeypatch.setattr(backup_set, "now", lambda: "2026-12-31T00:00:00Z")
    full.storage.backup(verify=[])
    before = full.entries()
    with used_up(full.disk):
        for _ in range(2):
            with pytest.raises((OSError, NodeError), match="Disk quota exceeded"):
                act(full)
        assert [one for one in full.entries() if one not in before] == []
    made = act(full)
    uid = JIHO if made[0].name == "jiho" else MINJI
    assert [path.stat().st_uid for path in made] == [uid] * len(made)


@pytest.mark.btrfs
def test_what_takes_nothing_is_done_all_the_same(full: Full, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_set, "now", lambda: "2026-12-31T00:00:00Z")
    with used_up(full.disk, "6M"):
        person = Person("minji", MINJI)
        found = scratch.observe([str(full.disk.local)], str(full.docker), [person])
        items = found.items
        assert [one.name for one in items] == ["minji"]
        plan, _done = scratch.wipe(scratch.Request(items, [str(full.disk.local), str(full.docker)], [person]))
        assert (plan.conflicts, list(full.docker.iterdir())) == ([], [])
        made = full.storage.backup(SECOND, verify=[])
        assert (set(made.homes), made.problems) == ({"minji"}, {})
        assert room.keep(full.disk.places, None, check=False).problems == []


ORDER = [*(("make_directory", what) for what in ("chown", "chmod")), ("owned", "fchown"), ("key", "fchown")]


@pytest.mark.root
@pytest.mark.holds(
    "a directory without its owner is not left to the next run", "a file has its owner before it has its name",
    "a directory of keys without its owner is not left behind",
)  # fmt: skip
@pytest.mark.parametrize(("what", "fails"), ORDER)
def test_what_btrfs_refuses_after_it_has_changed_it_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, fails: str
) -> None:
    """chown of btrfs says EDQUOT and shows the new owner, which is not on the disk: the next run must not see it."""
    monkeypatch.setattr(pwd, "getpwnam", lambda name: pwd.struct_passwd((name, "x", MINJI, 0, "", "", "")))
    (tmp_path / "home").mkdir()
    real = getattr(os, fails)

    def refused(*given: Any, **more: Any) -> None:
        real(*given, **more)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    work = {
        "make_directory": lambda: files.make_directory(str(tmp_path / "home/made"), 0o711, os.geteuid(), os.getegid()),
        "owned": lambda: owned.give(str(tmp_path / "home/made"), "minji", b"hers"),
        "key": lambda: admin.add_key(str(tmp_path / "home"), KEY, os.geteuid(), os.getegid()),
    }[what]
    with monkeypatch.context() as patch:
        patch.setattr(os, fails, refused)
        with pytest.raises(OSError, match="Disk quota exceeded"):
            work()
    assert list((tmp_path / "home").iterdir()) == []
    work()
    assert len(list((tmp_path / "home").iterdir())) == 1

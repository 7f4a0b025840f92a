"""Well-known modes and owners, and a root that is writable."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges import modes
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place

from tests.unit.node.privileges.conftest import Host

pytestmark = pytest.mark.root  # what is looked at belongs to root

ON_DISK = "1 0 0:1 / / rw - ext4 /dev/sda1 rw\n"


def found_of(place: Place, mountinfo: str = ON_DISK) -> dict[str, str]:
    return {one.key: one.rank for one in modes.modes(place, mountinfo)}


@pytest.fixture
def tree(host: Host, tmp_path: Path) -> Place:
    place = host({"tmp/x": "", "var/tmp/x": "", "home/x": "", "root/x": "", "etc/sudoers-rs": ""})
    for name, mode in (
        ("tmp", 0o1777),
        ("var/tmp", 0o1777),
        ("etc/shadow", 0o640),
        ("etc/sudoers", 0o440),
        ("etc/sudoers-rs", 0o444),
    ):
        (tmp_path / name).chmod(mode)
    tmp_path.chmod(0o755)
    return place


@pytest.mark.parametrize(
    ("name", "mode", "rank"),
    [
        ("tmp", 0o755, "differs"), ("tmp", 0o777, "differs"), ("var/tmp", 0o700, "differs"),
        ("etc", 0o777, "root"), ("etc", 0o700, "differs"), ("home", 0o750, "differs"), ("root", 0o770, "root"),
        ("etc/shadow", 0o644, "root"), ("etc/passwd", 0o600, "differs"), ("etc/sudoers", 0o460, "root"),
        ("etc/sudoers-rs", 0o464, "root"),
    ],
)  # fmt: skip
def test_each_mode(tree: Place, tmp_path: Path, name: str, mode: int, rank: str) -> None:
    assert found_of(tree) == {}
    (tmp_path / name).chmod(mode)
    assert found_of(tree) == {f"/{name}": rank}


def test_an_owner_that_is_not_root(tree: Place, tmp_path: Path) -> None:
    os.chown(tmp_path / "etc/sudoers.d", 20000, 0)
    assert found_of(tree) == {"/etc/sudoers.d": "root"}


def test_what_is_missing_and_what_loads_into_all(tree: Place, tmp_path: Path) -> None:
    (tmp_path / "tmp/x").unlink()
    (tmp_path / "tmp").rmdir()
    (tmp_path / "etc/ld.so.preload").write_text("/tmp/x.so\n")
    assert found_of(tree) == {"/tmp": "differs", "/etc/ld.so.preload": "root"}


def test_homes_on_a_server_are_not_looked_at(tree: Place, tmp_path: Path) -> None:
    (tmp_path / "home").chmod(0o700)
    assert found_of(tree, f"{ON_DISK}2 1 0:2 / /home rw - nfs4 storage1:/homes rw\n") == {}
    assert found_of(tree, f"{ON_DISK}2 1 0:2 / /home rw - autofs systemd-1 rw\n") == {}


@pytest.mark.parametrize(
    ("subvolume", "read_only", "keys"),
    [("/roots/a", False, ["/"]), ("/roots/a", True, []), ("/", False, [])],
    ids=["open", "closed", "a root of its own"],
)
def test_a_root_that_is_writable(
    host: Host, monkeypatch: pytest.MonkeyPatch, subvolume: str, read_only: bool, keys: list[str]
) -> None:
    seen = SimpleNamespace(read_only=read_only)
    monkeypatch.setattr(btrfs, "inspect", lambda path: seen)
    text = f"1 0 0:1 {subvolume} / rw - btrfs /dev/sda2 rw,subvolid=256\n"
    assert [one.key for one in modes.writable_root(host(), text)] == keys

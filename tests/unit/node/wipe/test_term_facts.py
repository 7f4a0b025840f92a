"""What a host knows that a reset decides from."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.homes.trash import TRASH
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import term_facts

from gpuadmin.common.records.people import HomeEntry


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("minji", TRASH, ".gpuadmin-restoring"):
        (tmp_path / "homes" / name).mkdir(parents=True, mode=0o700)
    (tmp_path / "homes").chmod(0o755)
    (tmp_path / "homes/odd\udcff").write_text("")
    return tmp_path / "homes"


def test_homes_with_what_keeps_them(root: Path) -> None:
    mountinfo = f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {root.parent} rw - btrfs /dev/b rw\n"
    mountinfo += f"3 2 0:3 / {root}/minji/disk rw - ext4 /dev/c rw\n"
    found = term_facts.of_homes(str(root), None, mountinfo)
    assert sorted(found) == ["minji", "odd\\xff"]
    me = os.getuid()
    assert found["minji"] == HomeEntry("directory", me, f"{root}/minji/disk is mounted inside", "minji")
    assert found["odd\\xff"].problem is None


def test_no_home_root_is_not_no_homes(tmp_path: Path) -> None:
    mountinfo = f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {tmp_path} rw - btrfs /dev/b rw\n"
    with pytest.raises(NodeError, match="there is no"):
        term_facts.of_homes(str(tmp_path / "homes"), None, mountinfo)


@pytest.mark.holds("a reset believes backups of root's alone")
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

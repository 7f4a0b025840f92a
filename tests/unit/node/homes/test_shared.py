"""Directories that people share: made for their group alone, kept, and given back what somebody changed."""

import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import shared

from gpuadmin.common.records.homes import SharedDirectory
from tests.unit.node.homes.conftest import Storage

pytestmark = pytest.mark.root
GID = 50001


def wanted(storage: Storage, *, backup: bool = False, name: str = "imagenet") -> SharedDirectory:
    above = storage.root if backup else storage.root.parent / "shared"
    return SharedDirectory(name, f"{above}/{'_shared-' if backup else ''}{name}", "vision", GID, "1T", backup)


def converge(storage: Storage, *entries: SharedDirectory, check: bool = False, mountinfo: str = "") -> shared.Found:
    return shared.converge(entries, str(storage.root), None, mountinfo or storage.mountinfo, check=check)


@pytest.mark.parametrize("backup", [False, True])
def test_made_for_the_group_alone(storage: Storage, backup: bool) -> None:
    one = wanted(storage, backup=backup)
    said = converge(storage, one, check=True)
    assert not Path(one.path).exists()
    assert converge(storage, one).done == said.done == [f"{one.path}: made for the group vision"]
    facts = Path(one.path).stat()
    assert (facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode)) == (0, GID, 0o2770)
    assert converge(storage, one) == shared.Found()

    # whatever the umask, what is made inside is the group's to write, and nobody else's to read
    before = os.umask(0o022)
    try:
        (Path(one.path) / "file").write_text("")
        (Path(one.path) / "directory").mkdir()
    finally:
        os.umask(before)
    made = [(Path(one.path) / name).stat() for name in ("file", "directory")]
    assert [(stat.S_IMODE(facts.st_mode), facts.st_gid) for facts in made] == [(0o660, GID), (0o2770, GID)]

    Path(one.path).chmod(0o777)
    os.removexattr(one.path, "system.posix_acl_default")
    assert converge(storage, one).done == [
        f"{one.path}: the group vision's alone again (gid {GID}, mode 2770, default ACL)"
    ]
    assert converge(storage, one) == shared.Found()


@pytest.mark.holds("what people share is not exchanged for an empty directory")
def test_another_place_is_not_an_empty_one(storage: Storage) -> None:
    converge(storage, wanted(storage))
    (said,) = converge(storage, wanted(storage, backup=True)).problems
    assert "since `backup` was the other way round: move it here (mkdir -p " in said
    assert not Path(wanted(storage, backup=True).path).exists()
    command = said.partition("move it here (")[2].partition(")")[0]
    subprocess.run(["bash", "-c", command], check=True)
    assert not converge(storage, wanted(storage, backup=True)).problems


def test_what_is_taken_out_of_the_settings_is_reported_and_kept(storage: Storage) -> None:
    entries = [wanted(storage), wanted(storage, backup=True, name="papers")]
    converge(storage, *entries)
    said = [f"{one.path} is in nobody's settings any more (shared): kept" for one in entries]
    assert sorted(converge(storage).notes) == sorted(said)
    assert all(Path(one.path).is_dir() for one in entries)


@pytest.mark.holds(
    "what is not root's directory is left alone", "one directory that cannot be made keeps no other",
    "nothing is made where the disk is not mounted",
)  # fmt: skip
def test_what_is_in_the_way_keeps_no_other(storage: Storage) -> None:
    above = storage.root.parent / "shared"
    above.mkdir()
    (above / "linked").symlink_to("/etc")
    (above / "theirs").mkdir()
    os.chown(above / "theirs", 20001, 20001)
    entries = [wanted(storage, name=name) for name in ("linked", "theirs", "imagenet")]
    unknown = replace(wanted(storage, name="unknown"), gid=None, group="nobody-has-this-group")
    found = converge(storage, *entries, unknown)
    assert [path.partition(": ")[0].rpartition("/")[2] for path in found.problems] == ["linked", "theirs", "unknown"]
    assert (above / "theirs").stat().st_uid == 20001
    assert (above / "imagenet").is_dir()

    unmounted = "1 0 0:1 / / rw - ext4 /dev/a rw\n"
    (said,) = converge(storage, wanted(storage, name="late"), mountinfo=unmounted).problems
    assert "its disk is not mounted" in said
    assert not (above / "late").exists()


def test_a_cut_leaves_nothing_in_the_way(storage: Storage) -> None:
    (storage.root.parent / "shared/.imagenet.gpuadmin-new").mkdir(parents=True)
    assert not converge(storage, wanted(storage)).problems
    assert [one.name for one in (storage.root.parent / "shared").iterdir()] == ["imagenet"]


def test_no_project_is_given_twice(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on ext4 and xfs, which count by it; this machine's file system need not."""
    given: dict[int, int] = {}
    monkeypatch.setattr(shared, "set_project", lambda handle, number: given.update({os.fstat(handle).st_ino: number}))
    monkeypatch.setattr(shared, "project", lambda handle: given.get(os.fstat(handle).st_ino, 0))
    converge(storage, wanted(storage, name="a"))
    converge(storage, wanted(storage, name="b"), wanted(storage, name="c"))
    assert sorted(given.values()) == [6175, 6176, 6177]

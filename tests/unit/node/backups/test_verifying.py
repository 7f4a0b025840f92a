"""Verified is: read, restored out of sight, and compared."""

import fcntl
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import (
    backup_set,
    copying,
    home_manifest,
    making,
    verifying,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from tests.support.backup_contents import everything, rubbish
from tests.support.deep_tree import plant
from tests.support.storage import JIHO, MINJI, Storage, flip, run


@pytest.mark.btrfs
def test_a_sample_restores_what_no_path_reaches(storage: Storage) -> None:
    home = storage.home(*MINJI)
    plant(home, ["x" * 255] * 18)
    backup = storage.backup(verify=[])
    limits = verifying.Limits(entries=0, sample=3)
    assert making.verify(backup, ["minji"], limits=limits).homes["minji"].verified


@pytest.mark.holds("a home whose restore failed is not verified")
@pytest.mark.btrfs
@pytest.mark.parametrize("limits", [verifying.Limits(), verifying.Limits(entries=0)])
def test_verified_means_restored(storage: Storage, monkeypatch: pytest.MonkeyPatch, limits: verifying.Limits) -> None:
    """Whatever a copy would lack, the home is not verified, nothing is called damaged, and the others go on."""
    home = storage.home(*MINJI)
    (home / "thesis").chmod(0o640)
    os.setxattr(home / "thesis", "user.secret", b"1")
    storage.home(*JIHO)
    backup = storage.backup(verify=[])
    real = copying.Copier._give

    def forgetful(self: copying.Copier, source: int, target: int, facts: os.stat_result) -> None:
        real(self, source, target, facts)
        if isinstance(target, int) and "user.secret" in os.listxattr(target):
            os.removexattr(target, "user.secret")

    monkeypatch.setattr(copying.Copier, "_give", forgetful)
    result = making.verify(backup, ["jiho", "minji"], limits=limits)
    assert (bool(result.homes["jiho"].verified), result.homes["minji"].verified) == (True, None)
    assert "'thesis' differs in attributes" in result.problems["minji"]
    assert "not verified" in storage.wipe(MINJI).conflicts[0]
    with pytest.raises(NodeError, match="was not verified: minji: "):
        making.verify(result, ["jiho", "minji"], limits=limits, again=True)
    monkeypatch.undo()
    result = making.verify(result, ["minji"], limits=limits)
    assert (result.problems, bool(result.homes["minji"].verified)) == ({}, True)
    assert rubbish(storage) == []


@pytest.mark.btrfs
@pytest.mark.holds(
    "what was not read to its end is not verified", "what cannot be read is damaged", "what differs is damaged",
    "what could not be restored is not verified", "a manifest is the one that was recorded",
    "a verification clears what verifications have left",
    "what differs without words differs", "a copy that differs without words differs",
)  # fmt: skip
def test_what_was_not_read_compared_and_restored_is_not_verified(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.home("minji", 20001, {"a": b"1", "b": b"2", "c": b"3"})
    storage.home(*JIHO)
    backup = storage.backup(verify=[])
    arriving = storage.directory / ".restoring-minji"
    arriving.mkdir()
    task = verifying.Task(backup, "minji")
    assert verifying.verify_home(task) == verifying.Found()
    assert arriving.is_dir(), "what lies there and is not a verification's own is left alone"
    found = verifying.verify_home(replace(task, limits=verifying.Limits(most=1)))
    assert (found.differences, bool(found.problem)) == ((), True)
    with monkeypatch.context() as patch:
        patch.setattr(verifying, "_restore", fails)
        assert "cannot be restored" in str(verifying.verify_home(task).problem)
    other = replace(backup, homes={**backup.homes, "minji": replace(backup.homes["minji"], checksum="another")})
    with monkeypatch.context() as patch:
        patch.setattr(home_manifest, "compare", lambda *_: [])
        patch.setattr(home_manifest, "total", totals("another", "one"))
        assert verifying.verify_home(replace(task, backup=other)).differences == ("differs",)
        patch.setattr(home_manifest, "total", totals("another", "another", "one"))
        assert "differs" in str(verifying.verify_home(replace(task, backup=other)).problem)
    manifest = Path(backup.manifest("minji"))
    kept = manifest.read_bytes()
    manifest.write_bytes(Path(backup.manifest("jiho")).read_bytes())
    assert verifying.verify_home(task).differences == ("its manifest is not the one that was recorded",)
    manifest.write_bytes(b"no manifest")
    assert verifying.verify_home(task).differences != ()
    manifest.write_bytes(kept)
    flip(backup.home("minji"), "a", b"!")
    assert verifying.verify_home(task).differences == ("'a' differs in content",)


def fails(*_: object) -> list[str]:
    raise NodeError("no")


def totals(*checksums: str) -> Callable[[object], home_manifest.Total]:
    """One checksum after the other, whatever is summed up."""
    following = iter(checksums)
    return lambda _lines: replace(home_manifest.Total(0, 0, 0, ""), checksum=next(following))


@pytest.mark.btrfs
def test_a_sample_holds_all_kinds(storage: Storage) -> None:
    home = storage.home(*MINJI)
    everything(home)
    run("btrfs", "subvolume", "create", home / "data")
    (home / "data/set").write_bytes(b"1")
    backup = storage.backup(verify=[])
    assert making.verify(backup, ["minji"], limits=verifying.Limits(entries=0)).homes["minji"].verified


@pytest.mark.btrfs
def test_which_lines_are_a_sample() -> None:
    lines = [home_manifest.Line(f"{number}", "f", 0, 0, 0, size=10) for number in range(1000)]
    lines.append(home_manifest.Line("a/very/long/one", "f", 0, 0, 0, size=10))
    lines.append(home_manifest.Line("a/further/name/of/it", "h", 0, 0, 0, link="1"))
    limits = verifying.Limits(sample=20, bytes=150)
    picked = [verifying.chosen(iter(lines), limits, random.Random(seed)) for seed in (1, 2)]
    assert [len(one) for one in picked] == [15, 15]
    assert all(one[0].path == "a/very/long/one" for one in picked)
    assert picked[0] != picked[1]


@pytest.mark.btrfs
def test_what_a_killed_verification_left_goes_and_what_is_in_use_stays(storage: Storage) -> None:
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    for name in ("stale", "busy"):
        (storage.directory / f"{verifying.SCRATCH}{name}").mkdir(mode=0o700)
        (storage.directory / f"{verifying.SCRATCH}{name}/copy").mkdir()
    busy = os.open(storage.directory / f"{verifying.SCRATCH}busy", os.O_RDONLY)
    fcntl.flock(busy, fcntl.LOCK_EX)
    making.verify(backup, ["minji"])
    assert rubbish(storage) == [f"{verifying.SCRATCH}busy"]
    os.close(busy)


@pytest.mark.btrfs
def test_two_verifications_leave_each_other_s_place_alone(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that is made and not locked yet looks like what a verification left that was killed."""
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    real = os.mkdir
    calls = []

    def made(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        real(path, mode, dir_fd=dir_fd)
        if os.fsdecode(path).rpartition("/")[2].startswith(verifying.SCRATCH):
            calls.append(path)
            if len(calls) == 1:  # the other one is here before anything else can be done with the directory
                verifying._clear(dir_fd, path)

    monkeypatch.setattr(os, "mkdir", made)
    assert verifying.verify_home(verifying.Task(backup, "minji")) == verifying.Found()
    assert len(calls) == 2
    assert rubbish(storage) == []


@pytest.mark.holds("a set that is deleted is not made one again")
@pytest.mark.btrfs
def test_a_set_that_is_deleted_while_it_is_verified_does_not_come_back(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.home(*MINJI)
    backup = storage.backup(verify=[])

    def deleted(task: verifying.Task) -> verifying.Found:
        (Path(task.backup.path) / "backup.json").unlink()  # the first step of a deletion
        return verifying.Found()

    monkeypatch.setattr(making, "verify_home", deleted)
    with pytest.raises(NodeError, match="was deleted while it was read"):
        making.verify(backup, ["minji"])
    assert backup_set.complete(str(storage.directory)) == []
    with pytest.raises(NodeError, match="was deleted while it was copied to nas2"):
        backup_set.copied(backup, "nas2", backup_set.now())
    assert backup_set.complete(str(storage.directory)) == []


@pytest.mark.btrfs
def test_what_a_backup_holds_is_not_too_much_to_be_verified(storage: Storage) -> None:
    """A verification goes through a home three times."""
    home = storage.home(*MINJI)
    for number in range(40):
        (home / str(number)).write_bytes(b"1")
    backup = making.create(replace(storage.request(), home_entries=42))
    assert backup.problems == {}
    assert backup.homes["minji"].verified

"""Limits of btrfs are no obstacle, and are there again whatever happens."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import read_file_system_uuid
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.takeover.node.renumbering import limits, work
from gpuadmin.takeover.node.renumbering.crawl import crawl
from gpuadmin.takeover.node.renumbering.journal import Plan, Renumbering
from tests.support.storage import mounted, run

pytestmark = [pytest.mark.root, pytest.mark.btrfs]
OLD, NEW, FILES = 31191, 31195, 3000
PLAN = Plan.of([Renumbering("minji", OLD, NEW, OLD)])


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A subvolume that has a limit, and nothing left below it; minji's files fill more than one node of a tree."""
    with mounted(tmp_path / "image", tmp_path / "point", 400) as point:
        run("btrfs", "quota", "enable", point)
        home = point / "home"
        run("btrfs", "subvolume", "create", home)
        for number in range(FILES):
            (home / f"f{number}").touch()
            os.chown(home / f"f{number}", OLD, OLD)
        run("btrfs", "filesystem", "sync", point)
        run("btrfs", "qgroup", "limit", "1M", home)
        yield home


def give(home: Path, journal: Path) -> Counter[int]:
    """One walk; whose the files are, by what a mount that begins anew says."""
    handle = os.open(home.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        crawl(handle, PLAN.task(1, "x", True), workers=2, directory=str(journal))
    finally:
        os.close(handle)
    run("btrfs", "filesystem", "sync", home)
    work._drop_caches()
    return Counter(path.lstat().st_uid for path in home.iterdir())


def test_without_limits_the_disk_has_the_new_owners(full: Path, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    assert give(full, journal)[OLD], "a limit is an obstacle by itself"
    handle = os.open(full.parent, os.O_RDONLY | os.O_DIRECTORY)
    uuid = read_file_system_uuid(handle)
    assert uuid is not None
    before = limits.read(uuid)
    assert [one[1:] for one in before] == [["-c", str(1 << 20)]]
    with limits.lifted([handle], str(journal)):
        assert limits.read(uuid) == []
        assert give(full, journal) == {NEW: FILES}
    os.close(handle)
    assert limits.read(uuid) == before
    assert not (journal / limits.RECORD).exists()


@pytest.mark.holds(
    "what was limited is known after a cut", "what was limited is limited again",
    "limits are on the disk before it is forgotten what they were",
)  # fmt: skip
def test_a_cut_forgets_no_limit(full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = os.open(full.parent, os.O_RDONLY | os.O_DIRECTORY)
    uuid = read_file_system_uuid(handle)
    assert uuid is not None
    before = limits.read(uuid)
    real = limits._limit

    def cut(group: str, kind: str, most: str, place: str) -> None:
        if most != "none":
            raise NodeError("cut off")
        real(group, kind, most, place)

    monkeypatch.setattr(limits, "_limit", cut)
    with pytest.raises(NodeError, match="not back yet"), limits.lifted([handle], str(tmp_path)):
        pass
    assert limits.read(uuid) == []
    monkeypatch.setattr(limits, "_limit", real)
    record, synced = tmp_path / limits.RECORD, []
    monkeypatch.setattr(limits, "sync_filesystem", lambda _: synced.append((limits.read(uuid), record.exists())))
    with suppress(RuntimeError), limits.lifted([handle], str(tmp_path)):
        raise RuntimeError("whatever happens")
    os.close(handle)
    assert limits.read(uuid) == before
    assert synced == [(before, True)]
    assert not record.exists()


@pytest.mark.holds("a limit whose group has gone since a cut is in nobody's way")
def test_a_group_that_has_gone_since_a_cut_stops_no_boot(full: Path, tmp_path: Path) -> None:
    """A boot is cut off, the next one finds a disk missing: people are in again, and one deletes a subvolume."""
    handle = os.open(full.parent, os.O_RDONLY | os.O_DIRECTORY)
    uuid = read_file_system_uuid(handle)
    assert uuid is not None
    before = limits.read(uuid)
    (tmp_path / limits.RECORD).write_text(json.dumps({uuid: [["0/987", "-c", "1048576"], *before]}))
    with limits.lifted([handle], str(tmp_path)):
        assert limits.read(uuid) == []
    os.close(handle)
    assert limits.read(uuid) == before
    assert not (tmp_path / limits.RECORD).exists()

"""What a wipe left: reported by the next backup, packed, and only then deleted; on a real btrfs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import backups, leftovers, packing, wipe
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from tests.unit.node.storage import FIRST, Storage, mounted, run

pytestmark = pytest.mark.btrfs
MINJI = ("minji", 20001)
SECOND = "20261228T010203Z-manual"


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        yield Storage(point)


def request(storage: Storage, *only: str) -> leftovers.Request:
    return leftovers.Request(str(storage.root), str(storage.point / "archive"), only or None, str(storage.point))


def left(storage: Storage) -> Path:
    """A home that was wiped but for what was written after its backup."""
    home = storage.home("minji", 20001, {"a/thesis": b"old", "b": b"gone", "c": b"c"})
    storage.backup()
    (home / "a/thesis").write_bytes(b"newer")
    (home / "a/new\nline").write_bytes(b"1")
    (home / "a/link").symlink_to("/etc/passwd")
    run("btrfs", "subvolume", "create", home / "volume")
    (home / "volume/inner").write_bytes(b"2")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(home / "socket"))
    Storage.give(home, 20001)
    plan, purged = storage.wipe_all(MINJI)
    assert (plan.conflicts, purged["minji"].kept) == ([], 6)
    return storage.root / wipe.TRASH / FIRST / "minji"


def test_it_is_packed_and_then_deleted(storage: Storage) -> None:
    place = left(storage)
    assert leftovers.names(str(storage.root)) == [f"{FIRST}/minji"]
    (one,) = leftovers.observe(request(storage))
    assert (one.user, one.uid, one.entries, one.bytes) == ("minji", 20001, 8, 7)
    done = leftovers.clear(request(storage))[f"{FIRST}/minji"]
    archive = Path(str(done["archive"]))
    assert archive.name.startswith("minji-20001-")
    assert archive.name.endswith(f"-leftover.{packing.suffix()}")
    assert (archive.stat().st_mode & 0o777, archive.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    names = run("tar", "--list", "--quoting-style=escape", f"--file={archive}").splitlines()
    assert {one.rstrip("/") for one in names} == {
        f"./minji{one}" for one in ("", "/a", "/a/thesis", "/a/new\\nline", "/a/link", "/volume", "/volume/inner")
    }  # fmt: skip
    assert run("tar", "--extract", "--to-stdout", f"--file={archive}", "./minji/a/thesis") == "newer"
    assert done["kept"] == 0
    assert not place.exists()
    assert storage.names == []
    assert leftovers.clear(request(storage)) == {}


def test_every_backup_says_so_until_it_is_cleared(storage: Storage) -> None:
    left(storage)
    _words, other = backups.plan(storage.request(SECOND))
    said = {f"'.gpuadmin-wiping/{FIRST}/minji'": "is what a wipe left because its backup lacks it "
            "(gpuadmin clear-leftovers)"}  # fmt: skip
    assert other == said
    assert storage.backup(SECOND).problems == said
    leftovers.clear(request(storage))
    assert storage.backup("20261229T010203Z-manual").problems == {}


def test_what_is_written_meanwhile_stays(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    place = left(storage)
    real = leftovers._pack

    def pack(given: leftovers.Request, one: leftovers.Leftover) -> str:
        made = real(given, one)
        (place / "a/thesis").write_bytes(b"newest")
        return made

    monkeypatch.setattr(leftovers, "_pack", pack)
    done = leftovers.clear(request(storage))[f"{FIRST}/minji"]
    assert (done["kept"], done["words"]) == (1, ["'a/thesis' was changed after it was packed"])
    assert (place / "a/thesis").read_bytes() == b"newest"


def test_an_archive_that_is_not_whole_deletes_nothing(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    place = left(storage)
    before = sorted(place.rglob("*"))
    monkeypatch.setattr(packing, "_create", lambda path, part, *_: run("tar", "-cz", f"--file={part}", "/dev/null"))
    with pytest.raises(NodeError, match="lacks"):
        leftovers.clear(request(storage))
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(storage.point))
    with pytest.raises((NodeError, FileNotFoundError)):
        leftovers.clear(request(storage))
    assert sorted(place.rglob("*")) == before
    assert list((storage.point / "archive").iterdir()) == []


def test_nothing_is_packed_that_is_not_named_so(storage: Storage) -> None:
    """Only BACKUP/USER below the place that root alone can enter, and only those that were decided."""
    left(storage)
    odd = storage.root / wipe.TRASH / "notes"
    odd.mkdir()
    (odd / "minji").write_bytes(b"x")
    assert [one.name for one in leftovers.observe(request(storage))] == [f"{FIRST}/minji"]
    assert leftovers.clear(request(storage, f"{SECOND}/minji")) == {}
    storage.root.chmod(0o777)
    with pytest.raises(NodeError):
        leftovers.clear(request(storage))

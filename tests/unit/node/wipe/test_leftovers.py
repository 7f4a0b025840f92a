"""What a wipe left: reported by the next backup, packed, and only then deleted; on a real btrfs."""

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import making
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import packing
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import homes, leftovers

from tests.support.deep_tree import descend
from tests.support.failing import fail_for
from tests.support.storage import FIRST, MINJI, Storage, leftover, run

pytestmark = [pytest.mark.btrfs, pytest.mark.holds("a deletion is not before what is written meanwhile")]
SECOND = "20261228T010203Z-manual"


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
    return storage.root / homes.TRASH / FIRST / "minji"


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


def test_nobody_waits_while_what_is_left_is_counted(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may have made it to take hours; the lock is that of new homes, too."""
    left(storage)
    real, free = leftovers._count, []

    def counted(path: str) -> tuple[int, int]:
        with flocked(leftovers.LOCK, 0):
            free.append(path)
        return real(path)

    monkeypatch.setattr(leftovers, "_count", counted)
    assert leftovers.clear(request(storage))[f"{FIRST}/minji"]["kept"] == 0
    assert len(free) == 1


def test_every_backup_says_so_until_it_is_cleared(storage: Storage) -> None:
    left(storage)
    _words, other = making.plan(storage.request(SECOND))
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
    (said,) = leftovers.clear(request(storage)).values()
    assert said["archive"] is None
    assert "lacks" in str(said["words"])
    monkeypatch.undo()
    monkeypatch.setattr(packing.subprocess, "Popen", lambda *_, **__: (_ for _ in ()).throw(FileNotFoundError("tar")))
    assert next(iter(leftovers.clear(request(storage)).values()))["archive"] is None
    assert sorted(place.rglob("*")) == before
    assert list((storage.point / "archive").iterdir()) == []


def test_nothing_is_packed_that_is_not_named_so(storage: Storage) -> None:
    """Only BACKUP/USER below the place that root alone can enter, and only those that were decided."""
    left(storage)
    odd = storage.root / homes.TRASH / "notes"
    odd.mkdir()
    (odd / "minji").write_bytes(b"x")
    (storage.root / homes.TRASH / FIRST / "Nobody's notes").mkdir()
    assert [one.name for one in leftovers.observe(request(storage))] == [f"{FIRST}/minji"]
    assert leftovers.clear(request(storage, f"{SECOND}/minji")) == {}
    assert leftovers.clear(replace(request(storage), only=[])) == {}
    storage.root.chmod(0o777)
    with pytest.raises(NodeError):
        leftovers.clear(request(storage))


def test_one_that_cannot_be_packed_keeps_no_other(storage: Storage) -> None:
    """A path that is too long, and something that is not a directory of ours: named, and the others are packed."""
    left(storage)
    backup = storage.root / homes.TRASH / FIRST
    odd = backup / "aaa"
    odd.mkdir()
    os.close(descend(odd, ["x" * 200] * 21, make=True))
    (storage.root / homes.TRASH / "20261222T010203Z-manual").write_bytes(b"no directory")
    done = leftovers.clear(request(storage))
    assert (done[f"{FIRST}/aaa"]["archive"], done[f"{FIRST}/aaa"]["kept"]) == (None, 1)
    assert "restore-home --to" in str(done[f"{FIRST}/aaa"]["words"])
    assert (done[f"{FIRST}/minji"]["kept"], list(backup.iterdir())) == (0, [odd])
    assert [path.name.partition("-")[0] for path in (storage.point / "archive").iterdir()] == ["minji"]


def test_one_that_changes_while_it_is_counted_hides_no_other(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    left(storage)
    (storage.root / homes.TRASH / FIRST / "aaa").mkdir()
    fail_for(
        monkeypatch,
        leftovers,
        "_count",
        lambda path: path.endswith("aaa"),
        NodeError("'x' was moved while it was looked at"),
    )
    one, other = leftovers.observe(request(storage))
    assert "was moved" in one.operation
    assert (other.user, other.entries) == ("minji", 8)


def test_counting_what_is_left_has_an_end(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is for the eye alone: what is not counted is packed all the same."""
    left(storage)
    monkeypatch.setattr(leftovers, "COUNTING", -1.0)
    (one,) = leftovers.observe(request(storage))
    assert (one.entries, one.problem) == (0, "not counted: takes longer than -1 seconds")


def test_what_a_cut_left_of_an_archive_goes(storage: Storage) -> None:
    left(storage)
    (storage.point / "archive").mkdir(mode=0o700)
    for name in ("minji-20001-20260101T000000Z-leftover.tar.gz.part", "minji-20001-20260101T000000Z.tar.gz.part"):
        (storage.point / "archive" / name).touch()
    leftovers.clear(request(storage))
    names = sorted(path.name for path in (storage.point / "archive").iterdir())
    assert len(names) == 2
    assert names[0] == "minji-20001-20260101T000000Z.tar.gz.part", "a home's, and not a leftover's"


def test_leftovers_are_packed_where_root_alone_can_look(storage: Storage) -> None:
    late = leftover(storage)
    archive = storage.point / "archive"
    archive.mkdir(mode=0o755)
    request = leftovers.Request(str(storage.root), str(archive), mountpoint=str(storage.point))
    done = leftovers.clear(request)[f"{FIRST}/minji"]
    assert done["archive"] is None
    assert "root alone" in str(done["words"])
    assert late.exists()


def test_leftovers_are_not_looked_for_below_a_mount_that_is_missing(storage: Storage) -> None:
    late = leftover(storage)
    request = leftovers.Request(str(storage.root), str(storage.point / "archive"), mountpoint=str(storage.root))
    with pytest.raises(NodeError, match="nothing is mounted"):
        leftovers.clear(request)
    assert late.exists()

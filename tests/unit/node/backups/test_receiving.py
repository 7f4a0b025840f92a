"""A storage host that was taken over, and its key for second copies: it can add some, and neither alter nor remove any.

The streams are written by hand; the forced command is called as ssh would. The other way round, too: what a backup
host that was taken over can do to the storage host that fetches from it.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import (
    backup_set,
    confined,
    copy_server,
    home_manifest,
    home_reader,
    making,
    pour,
    pruning,
    received,
    receiving,
    retention,
    transfer,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.node import crafted
from tests.unit.node.storage import MINJI, Storage, mounted

UUID = "12345678-1234-1234-1234-123456789012"
OTHER = "12345678-1234-1234-1234-123456789013"
REAL = "20261220T010203Z-daily"
FALSE = "20261221T010203Z-daily"
QUICK = pour.Bounds(idle=1.0, total=20.0, reserve=0.02)


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 12, 21, 2, tzinfo=UTC)

    def __call__(self) -> str:
        return f"{self.now:%Y-%m-%dT%H:%M:%SZ}"

    def name(self, label: str) -> str:
        return f"{self.now:%Y%m%dT%H%M%SZ}-{label}"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(backup_set, "now", clock)
    monkeypatch.setattr(making, "now", clock)
    return clock


class Keeper:
    """The host that keeps copies, as whoever has the key meets it."""

    def __init__(self, point: Path, clock: Clock) -> None:
        self.point = point
        self.directory = point / "copies"
        self.clock = clock

    def ask(self, request: str, data: bytes = b"", ordinary: int | None = 1) -> str:
        with tempfile.TemporaryFile() as stream, tempfile.TemporaryFile() as out:
            stream.write(data)
            stream.seek(0)
            return copy_server.serve(
                str(self.directory), request, stream.fileno(), out.fileno(), ordinary=ordinary, bounds=QUICK, wait=0.2
            )

    def receive(self, *commands: bytes, name: str = FALSE, part: str = "homes", uuid: str = UUID) -> None:
        head = crafted.subvol(part.rpartition("/")[2], uuid)
        self.ask(f"receive {name} {part} {uuid}", crafted.stream(head, *commands))

    def invent(self, name: str, *, verify: bool = True, **more: object) -> None:
        """A set that is complete and well formed, of a home that nobody has."""
        self.ask(f"begin {name}")
        own = crafted.chown("minji", 20001), crafted.chmod("minji", 0o700)
        thesis = crafted.mkfile("minji/thesis"), crafted.write("minji/thesis", b"precious\n")
        self.receive(crafted.mkdir("minji"), *thesis, *own, name=name)
        top = Path(receiving.place(str(self.directory), name), "homes/minji")
        lines = list(home_reader.lines(str(top)))
        text = "".join(line.text() + "\n" for line in lines).encode()
        total = home_manifest.total(iter(lines))
        self.ask(f"manifest {name} minji", gzip.compress(text))
        home = {"uid": 20001, "inode": 257, "volume": "", **total.as_dict(), "nested": {},
                "verified": "2099-01-01T00:00:00Z"}  # fmt: skip
        document = {"format": backup_set.FORMAT, "created": self.clock(), "root": "/srv/homes", "inside": ".",
                    "homes": {"minji": home}, "problems": {}, "copies": {}}  # fmt: skip
        self.ask(f"commit {name}", json.dumps({**document, **more}).encode())
        if verify:
            self.ask(f"verify {name} minji")

    @property
    def names(self) -> list[str]:
        return [one.name for one in backup_set.complete(str(self.directory))]

    def picture(self, name: str = REAL) -> list[object]:
        """All there is of a set, but when it was verified last."""
        path = self.directory / name
        document = json.loads((path / "backup.json").read_text())
        verified = [bool(home.pop("verified")) for home in document["homes"].values()]
        found: list[object] = [document, verified, received.arrived(str(path))]
        for one in sorted(path.rglob("*")):
            facts = one.lstat()
            verifying = one.name == "backup.json"  # a verification writes it anew
            found.append((str(one), facts.st_mode, facts.st_uid, 0 if verifying else facts.st_ino))
            if one.is_file() and not one.is_symlink() and not verifying:
                found.append(one.read_bytes())
        return found


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Path]:
    """Where the images of file systems lie: in memory where that can be, because all here is synced very often."""
    place = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path))
    yield place
    place.rmdir()


@pytest.fixture
def keeper(tmp_path: Path, disks: Path, clock: Clock) -> Iterator[Keeper]:
    with mounted(disks / "disk", tmp_path / "other", 256) as point:
        yield Keeper(point, clock)


@pytest.fixture
def real(keeper: Keeper) -> Keeper:
    """With a copy there that is complete and was verified."""
    keeper.invent(REAL)
    return keeper


def send(backup: backup_set.Backup, keeper: Keeper) -> None:
    """What transfer.send does, without a process for each request."""
    keeper.ask(f"begin {backup.name}")
    for part in received.parts(backup):
        volume = btrfs.subvolume(f"{backup.path}/{part}")
        assert volume is not None
        stream = subprocess.run(transfer.send_command(f"{backup.path}/{part}", None), capture_output=True, check=True)
        keeper.ask(f"receive {backup.name} {part} {volume.uuid}", stream.stdout)
    for name in backup.homes:
        keeper.ask(f"manifest {backup.name} {name}", Path(backup.manifest(name)).read_bytes())
    keeper.ask(f"commit {backup.name}", Path(backup.path, "backup.json").read_bytes())
    keeper.ask(f"verify {backup.name} {' '.join(backup.homes)}")


def into(where: str) -> list[bytes]:
    """What reaches for a place, if a link leads there: to write, to delete, to rename, to change a mode."""
    return [
        crafted.write(f"{where}/backup.json", b"{}"),
        crafted.unlink(f"{where}/backup.json"),
        crafted.unlink(f"{where}/manifest/minji.gz"),
        crafted.mkfile(f"{where}/new"),
        crafted.rename(f"{where}/backup.json", f"{where}/other"),
        crafted.chmod(f"{where}/backup.json", 0o777),
        crafted.chown(f"{where}/backup.json", 20001),
        crafted.write(f"{where}/homes/minji/thesis", b"forged"),
        crafted.chmod(f"{where}/homes/minji", 0o777),
    ]


@pytest.mark.btrfs
@pytest.mark.parametrize("way", ["above", "by-path", "inside"])
def test_a_stream_cannot_reach_another_set(real: Keeper, way: str) -> None:
    """By a link to the place as the host knows it, by one as the confined program does, and by '..'."""
    target = {"above": f"../../../{REAL}", "by-path": str(real.directory / REAL), "inside": f"/top/{REAL}"}[way]
    before = real.picture()
    for reach in into("link"):
        real.ask(f"begin {FALSE}")
        with pytest.raises(NodeError, match="ERROR"):
            real.receive(crafted.symlink("link", target), reach)
        assert real.picture() == before
    for reach in into(f"../../../{REAL}"):
        real.ask(f"begin {FALSE}")
        with pytest.raises(NodeError, match="ERROR"):
            real.receive(reach)
        assert real.picture() == before
    assert real.names == [REAL]


@pytest.mark.btrfs
def test_a_stream_cannot_leave_the_file_system(keeper: Keeper, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    for reach in (crafted.write("link", b"yours"), crafted.chmod("link", 0o777), crafted.unlink("dir/outside")):
        keeper.ask(f"begin {FALSE}")
        with pytest.raises(NodeError, match="ERROR"):
            keeper.receive(crafted.symlink("link", str(outside)), crafted.symlink("dir", str(tmp_path)), reach)
    assert (outside.read_bytes(), outside.stat().st_mode & 0o777) == (b"mine", 0o644)


@pytest.mark.btrfs
def test_nothing_beside_the_copies_can_be_read(keeper: Keeper) -> None:
    """A stream may share extents with files; of this file system it sees the copies alone."""
    secret = keeper.point / "secret"
    secret.write_bytes(b"secret\n" * 8192)
    os.sync()
    for target in (str(secret), "/top/../secret", "/top/secret", "../../../../secret"):
        keeper.ask(f"begin {FALSE}")
        with pytest.raises(NodeError, match="ERROR"):
            keeper.receive(
                crafted.mkfile("x"), crafted.symlink("link", target), crafted.clone("x", UUID, "link", 4096 * 8)
            )


MORE = [
    [crafted.mkfile("../backup.json")],
    [crafted.mkfile("../received.json")],
    [crafted.symlink("../other", f"../../{REAL}")],
    [crafted.mkdir("../x")],
    [crafted.subvol("second", OTHER)],
    [crafted.chmod("..", 0o777)],
    [crafted.chown("..", 20001)],
    [crafted.rename("../nested", "../x")],
    [crafted.symlink("../manifest/minji.gz", "/etc/shadow")],
    [crafted.subvol("second", OTHER), crafted.symlink("../nested/1", f"../../../{REAL}/homes")],
]


@pytest.mark.btrfs
def test_a_stream_that_brings_more_than_its_snapshot(real: Keeper) -> None:
    before = real.picture()
    for commands in MORE:
        real.ask(f"begin {FALSE}")
        with pytest.raises(NodeError):
            real.receive(*commands)
        assert not os.path.lexists(receiving.place(str(real.directory), FALSE))
        assert (real.picture(), real.names) == (before, [REAL])
    real.invent(FALSE)  # and the next one finds no trace of it
    assert real.names == [REAL, FALSE]


@pytest.mark.btrfs
def test_a_link_in_place_of_a_snapshot(real: Keeper) -> None:
    """What cleans up after it must not follow the link and delete what is there."""
    before = real.picture()
    for link, target in (("homes", f"../../{REAL}/homes"), ("x", f"../../{REAL}")):
        real.ask(f"begin {FALSE}")
        stream = crafted.stream(crafted.subvol("second", UUID), crafted.symlink(f"../{link}", target))
        with pytest.raises(NodeError):
            real.ask(f"receive {FALSE} homes {UUID}", stream)
        real.ask(f"begin {FALSE}")
        assert real.picture() == before


@pytest.mark.btrfs
def test_deleting_a_set_follows_no_link(keeper: Keeper) -> None:
    """A set of before, whose snapshots are links into another one."""
    keeper.invent(REAL)
    before = keeper.picture()
    for kind in ("homes", "nested"):
        place = keeper.directory / FALSE
        place.mkdir()
        (place / kind).symlink_to(f"../{REAL}/homes" if kind == "homes" else f"../{REAL}")
        backup_set.remove(str(keeper.directory), FALSE)
        assert keeper.picture() == before


@pytest.mark.btrfs
def test_while_it_arrives_it_is_no_backup(keeper: Keeper) -> None:
    """Whatever it calls itself: what is not committed is not listed, nor given, nor counted."""
    keeper.ask(f"begin {FALSE}")
    seen: list[list[str]] = []
    read, write = os.pipe()

    def look() -> None:
        stream = crafted.stream(crafted.subvol("homes", UUID), crafted.mkfile("../backup.json"))
        os.write(write, stream[:-10])  # all but its end: the receiver waits
        time.sleep(0.6)  # longer than the keeper's interval
        seen.append(keeper.names)
        os.close(write)

    watcher = threading.Thread(target=look)
    watcher.start()
    with pytest.raises(NodeError):
        copy_server.serve(str(keeper.directory), f"receive {FALSE} homes {UUID}", read, bounds=QUICK)
    watcher.join()
    os.close(read)
    assert seen == [[]]


@pytest.mark.btrfs
def test_a_sender_that_stalls_is_ended_and_one_at_a_time_is_served(keeper: Keeper) -> None:
    keeper.ask(f"begin {FALSE}")
    read, write = os.pipe()
    os.write(write, crafted.stream(crafted.subvol("homes", UUID))[:-10])
    said: list[str] = []

    def stall() -> None:
        try:
            copy_server.serve(str(keeper.directory), f"receive {FALSE} homes {UUID}", read, bounds=QUICK)
        except NodeError as error:
            said.append(str(error))

    stalling = threading.Thread(target=stall)
    stalling.start()
    time.sleep(0.4)  # until the thread has the lock
    with pytest.raises(NodeError, match="held"):
        keeper.ask(f"begin {REAL}")
    assert keeper.ask("list") == ""
    stalling.join(10)
    os.close(write)
    os.close(read)
    assert "stood still" in said[0]
    keeper.invent(REAL)


@pytest.mark.btrfs
def test_a_receiver_that_is_made_to_hang_is_ended(keeper: Keeper) -> None:
    """A fifo that it is to share extents with: opening it waits for ever."""
    keeper.ask(f"begin {FALSE}")
    fifo = crafted.command(6, crafted.text(crafted.PATH, "f"), crafted.number(crafted.INO, 303))
    begun = time.monotonic()
    with pytest.raises(NodeError, match="stood still"):
        keeper.receive(fifo, crafted.mkfile("x"), crafted.clone("x", UUID, "f", 4096))
    assert time.monotonic() - begun < 15


@pytest.mark.btrfs
def test_the_disk_is_not_filled(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room is left for what deletes: nothing is begun without it, and what has begun ends."""
    full = replace(QUICK, reserve=1.0)
    monkeypatch.setattr(receiving, "check_room", lambda path: pour.check_room(path, full))
    with pytest.raises(NodeError, match="100% of the file system"):
        keeper.ask(f"begin {FALSE}")
    monkeypatch.undo()
    with Path("/dev/zero").open("rb") as source, Path("/dev/null").open("wb") as sink:
        begun = time.monotonic()
        with pytest.raises(NodeError, match="100% of the file system"):
            pour.pour(source.fileno(), sink.fileno(), str(keeper.directory), bounds=full)
    assert time.monotonic() - begun < 10


def test_a_stream_ends_in_time_and_at_its_size(tmp_path: Path) -> None:
    with Path("/dev/zero").open("rb") as source, Path("/dev/null").open("wb") as sink:
        with pytest.raises(NodeError, match="longer than 5000 bytes"):
            pour.pour(source.fileno(), sink.fileno(), str(tmp_path), most=5000, bounds=QUICK)
        with pytest.raises(NodeError, match="stood still"):
            pour.pour(source.fileno(), sink.fileno(), str(tmp_path), bounds=replace(QUICK, total=0.5))


@pytest.mark.btrfs
def test_what_cannot_be_confined_does_not_run(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper.ask(f"begin {FALSE}")

    def refuse(_view: confined.View) -> None:
        raise OSError("no namespaces here")

    monkeypatch.setattr(confined, "enter", refuse)
    view = confined.View(str(keeper.directory), receiving.place(str(keeper.directory), FALSE))
    with tempfile.TemporaryFile() as said:
        assert confined.start(view, ("true",), said).wait(10) == 125
    with pytest.raises(NodeError, match="cannot be confined: no namespaces here"):
        keeper.receive()
    assert [one.name for one in keeper.directory.iterdir()] == [copy_server.LOCK]


@pytest.mark.btrfs
def test_the_confined_program_sees_little(keeper: Keeper) -> None:
    """No network, no /etc, no /proc, nothing of this host's file systems but programs; one directory to write in."""
    keeper.ask(f"begin {FALSE}")
    view = confined.View(str(keeper.directory), receiving.place(str(keeper.directory), FALSE))
    script = f"""
        cd {view.inside} && touch mine || exit 1
        for place in / /usr /top {view.inside}/nested; do touch $place/x && exit 2; done
        for place in /etc /proc /home /run /root /tmp; do test -e $place && exit 3; done
        test "$(ls /top)" = "" && exit 0
    """
    with tempfile.TemporaryFile() as said:
        process = confined.start(view, ("sh", "-c", script), said)
        assert process.wait(10) == 0
        process = confined.start(view, ("sleep", "20"), said)
        for space in ("mnt", "net", "ipc"):
            assert Path(f"/proc/{process.pid}/ns/{space}").readlink() != Path(f"/proc/self/ns/{space}").readlink()
        assert "NoNewPrivs:\t1" in Path(f"/proc/{process.pid}/status").read_text()
        process.kill()
        process.wait()
    assert list(Path(confined.ROOT).iterdir()) == []
    assert confined.ROOT not in Path("/proc/self/mountinfo").read_text()


def test_the_future_is_refused(tmp_path: Path, clock: Clock) -> None:
    directory = str(tmp_path / "copies")
    for name, words in (
        ("20990101T010203Z-daily", "of the future"),
        ("20261221T021100Z-daily", "of the future"),
        ("20261399T010203Z-daily", "names no time"),
    ):
        with pytest.raises(NodeError, match=words):
            copy_server.serve(directory, f"begin {name}")
    received.check_time("20261221T020900Z-daily")


@pytest.mark.btrfs
def test_what_the_sender_says_of_times_and_proof_is_not_believed(real: Keeper) -> None:
    """Two invented sets of 2099, said to be verified, and then a verification: both real ones were deleted so."""
    before = real.picture()
    for number in (1, 2):
        name = f"2026122{number}T00000{number}Z-daily"
        real.clock.now += timedelta(days=1)
        with pytest.raises(NodeError, match="of the future"):
            real.invent(name, created="2099-01-01T00:00:00Z")
        real.invent(name, created="2026-12-21T00:00:00Z", copies={"nas3": "2026-12-21T00:00:00Z"}, verify=False)
        found = backup_set.load(str(real.directory), name)
        assert found is not None
        assert (found.homes["minji"].verified, dict(found.copies)) == (None, {})
        assert received.arrived(found.path) == real.clock.now
        real.ask(f"verify {name} minji")
    assert real.names[0] == REAL
    assert real.picture() == before


def change(document: dict[str, object], **home: object) -> dict[str, object]:
    homes = document["homes"]
    assert isinstance(homes, dict)
    return {**document, "homes": {"minji": {**homes["minji"], **home}}}


HOMES: list[dict[str, object]] = [
    {"files": 7}, {"files": -1}, {"entries": 7}, {"bytes": "1"}, {"bytes": True}, {"checksum": "0" * 64},
    {"checksum": "x"}, {"uid": 2**32}, {"uid": None}, {"volume": "x"}, {"verified": "yesterday"},
    {"nested": {"../../etc": "nested/0"}}, {"nested": {"/etc": "nested/0"}}, {"nested": {"data": "../x"}},
    {"nested": {"data": "homes"}}, {"nested": {"data": "nested/0"}}, {"nested": []}, {"unknown": 1},
]  # fmt: skip


@pytest.mark.btrfs
def test_a_home_that_is_not_as_told(real: Keeper) -> None:
    document = json.loads((real.directory / REAL / "backup.json").read_text())
    for wrong in HOMES:
        with pytest.raises(NodeError):
            real.invent(FALSE, homes=change(document, **wrong)["homes"])
        assert real.names == [REAL]


SETS: list[dict[str, object]] = [
    {"inside": "../.."}, {"inside": "/etc"}, {"inside": "minji"}, {"inside": ""}, {"inside": 1}, {"root": 1},
    {"root": "x"}, {"created": 1}, {"created": "now"}, {"homes": []}, {"homes": {}}, {"problems": []}, {"format": 9},
    {"homes": {"../x": {}}},
]  # fmt: skip


@pytest.mark.btrfs
def test_a_set_that_is_not_as_told(keeper: Keeper) -> None:
    for wrong in SETS:
        with pytest.raises(NodeError):
            keeper.invent(FALSE, **wrong)
        assert keeper.names == []
    with pytest.raises(NodeError, match="cannot be read"):
        keeper.ask(f"commit {FALSE}", b"[" * 100000)


def test_paths_that_lead_out(clock: Clock) -> None:
    """Where a nested subvolume was in its home is where a restore puts it."""
    home = {"uid": 1, "inode": 1, "volume": "", "files": 0, "bytes": 0, "entries": 1, "checksum": "0" * 64}
    document = {
        "format": backup_set.FORMAT,
        "created": clock(),
        "root": "/r",
        "inside": ".",
        "problems": {},
        "copies": {},
    }
    for where, refused in (
        ("a/b", False),
        ("", False),
        ("..", True),
        ("a/../../b", True),
        ("/etc", True),
        ("a//b", True),
    ):
        said = json.dumps({**document, "homes": {"minji": {**home, "nested": {where: "nested/0"}}}})
        if refused:
            with pytest.raises(NodeError, match="nested of minji"):
                received.parse("/d", REAL, said)
        else:
            assert received.parse("/d", REAL, said).homes["minji"].nested == {where: "nested/0"}


@pytest.mark.btrfs
def test_each_word_that_is_no_name_is_refused_as_such(real: Keeper) -> None:
    """And not because nothing has begun, or is there, to which it would lead."""
    (real.directory / REAL / "other").mkdir()
    asked = [f"send {REAL} ../{REAL}/homes", f"send {REAL} other", f"manifest-of {REAL} ../minji", "show ../x"]
    asked += [f"manifest-of {REAL} sora", f"show {REAL} more", f"receive {FALSE} ../homes {UUID}"]
    asked += [f"receive {FALSE} nested/../../x {UUID}", f"receive {FALSE} homes x", f"manifest {FALSE} ../../x"]
    real.ask(f"begin {FALSE}")
    for request in asked:
        with pytest.raises(NodeError, match=r"\Anot understood\Z"):
            real.ask(request)


@pytest.mark.btrfs
def test_a_snapshot_comes_once(keeper: Keeper) -> None:
    keeper.ask(f"begin {FALSE}")
    keeper.receive()
    with pytest.raises(NodeError, match="homes is there already"):
        keeper.receive()


MINE = {"uid": 1, "inode": 1, "volume": "", "files": 0, "bytes": 0, "entries": 1, "checksum": "0" * 64, "nested": {},
        "verified": None}  # fmt: skip
WRONG: list[tuple[str, dict[str, object], dict[str, object]]] = [
    ("uid of minji", {"uid": 2**32}, {}),
    ("uid of minji", {"uid": True}, {}),
    ("inode of minji", {"inode": -1}, {}),
    ("files of minji", {"files": "1"}, {}),
    ("volume of minji", {"volume": "x"}, {}),
    ("checksum of minji", {"checksum": ""}, {}),
    ("verified of minji", {"verified": "yesterday"}, {}),
    ("nested of minji", {"nested": []}, {}),
    ("nested of minji", {"nested": {"data": "../x"}}, {}),
    ("nested of minji", {"nested": {"data": "homes"}}, {}),
    ("one snapshot for two places", {"nested": {"a": "nested/0", "b": "nested/0"}}, {}),
    ("inside", {}, {"inside": "../.."}),
    ("root", {}, {"root": "x"}),
    ("created", {}, {"created": "2026-12-21"}),
    ("problems", {}, {"problems": []}),
    ("the name", {}, {"homes": {"../x": MINE}}),
]


@pytest.mark.parametrize(("words", "home", "more"), WRONG)
def test_each_field_is_refused_by_its_name(
    clock: Clock, words: str, home: dict[str, object], more: dict[str, object]
) -> None:
    """And not because it does not fit what arrived."""
    document = {"format": backup_set.FORMAT, "created": clock(), "root": "/r", "inside": ".", "problems": {},
                "copies": {}, "homes": {"minji": {**MINE, **home}}}  # fmt: skip
    assert received.parse("/d", REAL, json.dumps({**document, "homes": {"minji": MINE}})).homes
    with pytest.raises(NodeError, match=f"refused: {words}"):
        received.parse("/d", REAL, json.dumps({**document, **more}))


@pytest.mark.btrfs
def test_a_snapshot_of_another_uuid(keeper: Keeper) -> None:
    keeper.ask(f"begin {FALSE}")
    with pytest.raises(NodeError, match="what arrived is not what was sent"):
        keeper.ask(f"receive {FALSE} homes {UUID}", crafted.stream(crafted.subvol("homes", OTHER)))


@pytest.mark.btrfs
def test_a_complete_set_is_not_begun_again(real: Keeper) -> None:
    before = real.picture()
    for request in (f"begin {REAL}", f"receive {REAL} homes {UUID}", f"manifest {REAL} minji", f"commit {REAL}"):
        with pytest.raises(NodeError, match="is complete here"):
            real.ask(request)
    assert real.picture() == before


@pytest.mark.btrfs
def test_a_home_that_a_link_leads_to(keeper: Keeper, tmp_path: Path) -> None:
    """A verification would read what the link leads to, and say what differs there."""
    theirs = tmp_path / "theirs/minji"
    theirs.mkdir(parents=True, mode=0o700)
    keeper.invent(REAL)
    document = json.loads((keeper.directory / REAL / "backup.json").read_text())
    manifest = (keeper.directory / REAL / "manifest/minji.gz").read_bytes()
    for name, target, inside in (("link", theirs.parent, "link"), ("minji", theirs, ".")):
        keeper.ask(f"begin {FALSE}")
        keeper.receive(crafted.symlink(name, str(target)))
        keeper.ask(f"manifest {FALSE} minji", manifest)
        with pytest.raises(NodeError, match="is no directory of"):
            keeper.ask(f"commit {FALSE}", json.dumps({**document, "inside": inside}).encode())


@pytest.mark.btrfs
def test_a_manifest_is_bounded(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper.ask(f"begin {FALSE}")
    keeper.receive()
    keeper.ask(f"manifest {FALSE} sora", gzip.compress(b"[]\n" * 2_000_000))
    with pytest.raises(OSError, match="File exists"):  # none is written over
        keeper.ask(f"manifest {FALSE} sora", gzip.compress(b"[]\n"))
    with pytest.raises(NodeError, match="too long, or too many"):
        keeper.ask(f"manifest {FALSE} minji", gzip.compress(bytes(40 << 20)))
    with pytest.raises(NodeError, match="too long, or too many"):
        keeper.ask(f"manifest {FALSE} jiho", gzip.compress(b"x\n" + bytes((16 << 20) + 1) + b"\nx"))
    with pytest.raises(NodeError, match="cannot be read"):
        keeper.ask(f"manifest {FALSE} duri", b"no gzip")
    monkeypatch.setattr(received, "LINES", 1000)
    with pytest.raises(NodeError, match="too long, or too many"):
        keeper.ask(f"manifest {FALSE} hana", gzip.compress(b"[]\n" * 1000))
    monkeypatch.setattr(received, "MANIFEST", 10)
    with pytest.raises(NodeError, match="longer than 10 bytes"):
        keeper.ask(f"manifest {FALSE} nari", gzip.compress(b"[]\n"))
    monkeypatch.setattr(received, "DOCUMENT", 10)
    with pytest.raises(NodeError, match="longer than 10 bytes"):
        keeper.ask(f"commit {FALSE}", b"{}" * 10)


@pytest.mark.btrfs
def test_so_many_in_a_day(real: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_server, "PER_DAY", 3)
    for _ in range(2):
        real.clock.now += timedelta(hours=1)
        real.invent(real.clock.name("daily"))
    with pytest.raises(NodeError, match="3 sets came in the last 24 hours"):
        real.ask(f"begin {real.clock.name('manual')}")
    real.clock.now += timedelta(days=1)
    real.invent(real.clock.name("manual"))
    assert len(real.names) == 4


@pytest.mark.btrfs
def test_what_came_before_times_were_written_down(real: Keeper) -> None:
    """It has just come, as far as this host knows."""
    (real.directory / REAL / received.STAMP).unlink()
    real.clock.now += timedelta(days=400)
    real.invent(real.clock.name("daily"))
    assert REAL in real.names
    assert received.arrived(str(real.directory / REAL)) == real.clock.now
    (real.directory / REAL / received.STAMP).write_text("x")
    real.clock.now += timedelta(days=400)
    real.invent(real.clock.name("daily"))
    assert REAL in real.names


@pytest.mark.btrfs
def test_one_that_does_not_go_keeps_no_other(real: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [REAL]
    for _ in range(3):
        real.clock.now += timedelta(days=40)
        names.append(real.clock.name("daily"))
        real.invent(names[-1], verify=False)
    remove = backup_set.remove

    def stuck(directory: str, name: str) -> None:
        if name == names[1]:
            raise NodeError("it is being read")
        remove(directory, name)

    monkeypatch.setattr(backup_set, "remove", stuck)
    with pytest.raises(NodeError, match=f"deleted {names[2]}; not deleted: {names[1]}: it is being read"):
        pruning.prune(str(real.directory), pruning.FOR_EVER, 1)


REQUESTS = ("begin", "receive", "manifest", "commit", "verify", "invent", "escape", "list", "show", "wait", "nonsense")


@pytest.mark.btrfs
@given(data=st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
def test_whatever_is_asked_for_what_was_verified_stays(real: Keeper, data: st.DataObject) -> None:
    """In any order, with the names of sets that are there and of others: a month of it."""
    before, begun = real.picture(), real.clock.now
    arrived = received.arrived(str(real.directory / REAL))
    assert arrived is not None
    for _ in range(data.draw(st.integers(1, 12))):
        verb = data.draw(st.sampled_from(REQUESTS))
        name = data.draw(st.sampled_from([REAL, FALSE, real.clock.name("daily"), real.clock.name("reset-2026-2"),
                                          "20200101T000000Z-daily", "20990101T000000Z-daily"]))  # fmt: skip
        try:
            if verb == "wait":
                left = arrived + timedelta(days=retention.COPY_DAYS, seconds=-1) - real.clock.now
                real.clock.now += min(left, timedelta(hours=data.draw(st.integers(1, 200))))
            elif verb == "invent":
                real.invent(name)
            elif verb == "escape":
                real.ask(f"begin {name}")
                reach = data.draw(st.sampled_from(into("link") + into(f"../../../{REAL}")))
                real.receive(crafted.symlink("link", f"../../../{REAL}"), reach, name=name)
            elif verb == "receive":
                real.receive(crafted.mkdir("minji"), name=name)
            elif verb == "manifest":
                real.ask(f"manifest {name} minji", gzip.compress(b"[]\n"))
            elif verb == "commit":
                real.ask(f"commit {name}", json.dumps(before[0]).encode())
            elif verb == "verify":
                real.ask(f"verify {name} minji", ordinary=0)
            else:
                shape = data.draw(st.sampled_from(["{0}", "{0} {1}", "{0} {1} ../x", "{0} ../{1}"]))
                real.ask(shape.format(verb, name))
        except (NodeError, OSError, ValueError):
            pass
        assert real.picture() == before
    for name in real.names[:]:  # the next example begins with the real one alone
        if name != REAL:
            backup_set.remove(str(real.directory), name)
    real.clock.now = begun


@given(
    flood=st.lists(st.tuples(st.floats(0, 120), st.booleans(), st.booleans(), st.floats(-4000, 0)), max_size=60),
    ordinary=st.integers(0, 5),
    days=st.integers(1, 90),
)
def test_nothing_that_is_sent_shortens_the_time_of_a_copy(
    flood: list[tuple[float, bool, bool, float]], ordinary: int, days: int
) -> None:
    """Sets with names and times of the sender's choice, verified or not; this host prunes after each of them."""
    begun = datetime(2026, 12, 21, tzinfo=UTC)
    told = begun - timedelta(days=240)  # they were made long before they were sent
    mine = [
        retention.Kept(f"20260420T00000{number}Z-{label}", told, frozenset("ab"), frozenset("ab"), begun)
        for number, label in enumerate(["daily", "daily", "reset-2026-2"])
    ]
    sets = list(mine)
    for number, (day, daily, verified, told) in enumerate(sorted(flood)):
        now = begun + timedelta(days=day)
        homes = frozenset("abc")
        label = "daily" if daily else "manual"
        sets.append(retention.Kept(f"20261221T{number:06}Z-{label}", now + timedelta(days=told), homes,
                                   homes if verified else frozenset(), now))  # fmt: skip
        gone = set(retention.expired(sets, days=days, ordinary=ordinary, now=now))
        sets = [one for one in sets if one.name not in gone]
        for one in mine:
            least = retention.COPY_DAYS if one.ordinary else max(days, retention.COPY_DAYS)
            assert one in sets or day >= least


@pytest.fixture
def fetching(tmp_path: Path, disks: Path, clock: Clock) -> Iterator[tuple[Keeper, Storage]]:
    """A backup host with one copy, and a storage host that has lost its own."""
    with (
        mounted(disks / "disk", tmp_path / "other", 256) as point,
        mounted(disks / "disk2", tmp_path / "srv", 256) as second,
    ):
        keeper, storage = Keeper(point, clock), Storage(second)
        storage.home(*MINJI)
        send(storage.backup(REAL), keeper)
        backup_set.remove(str(storage.directory), REAL)
        yield keeper, storage


def liar(keeper: Keeper, tmp_path: Path, **lies: bytes) -> transfer.Remote:
    """A backup host that answers as it should, but for ``lies``."""
    said = {"list": keeper.ask("list").encode(), "show": keeper.ask(f"show {REAL}").encode(),
            "manifest-of": (keeper.directory / REAL / "manifest/minji.gz").read_bytes(),
            "send": subprocess.run(transfer.send_command(str(keeper.directory / REAL / "homes"), None),
                                   capture_output=True, check=True).stdout}  # fmt: skip
    said |= {verb.replace("_", "-"): answer for verb, answer in lies.items()}
    for verb, answer in said.items():
        (tmp_path / f"said-{verb}").write_bytes(answer)
    return transfer.Remote("nas2", ("sh", "-c", f'cat {tmp_path}/said-"${{0%% *}}"'))


@pytest.mark.btrfs
def test_a_backup_host_cannot_write_on_the_storage_host(fetching: tuple[Keeper, Storage], tmp_path: Path) -> None:
    keeper, storage = fetching
    home = storage.root / "minji/thesis"
    uuid = json.loads(keeper.ask(f"show {REAL}"))["uuids"]["homes"]
    for commands in (
        [crafted.symlink("link", str(home)), crafted.write("link", b"forged")],
        [crafted.symlink("link", "/top/homes/minji/thesis"), crafted.write("link", b"forged")],
        [crafted.symlink("link", str(tmp_path)), crafted.mkfile("link/new")],
        [crafted.mkfile("../../../homes/minji/new")],
        [crafted.mkfile("../backup.json")],
    ):
        stream = crafted.stream(crafted.subvol("homes", uuid), *commands)
        with pytest.raises(NodeError, match="did not come from nas2"):
            transfer.fetch(REAL, str(storage.directory), liar(keeper, tmp_path, send=stream))
        assert home.read_bytes() == b"precious\n"
        assert not (tmp_path / "new").exists()
        assert backup_set.names(str(storage.directory)) == []
        assert not os.path.lexists(storage.directory / receiving.INCOMING)
    fetched = transfer.fetch(REAL, str(storage.directory), liar(keeper, tmp_path))
    assert making.verify(fetched, ["minji"]).homes["minji"].verified
    assert received.arrived(fetched.path) is None


@pytest.mark.btrfs
def test_what_a_backup_host_tells_is_held_against_what_came(
    fetching: tuple[Keeper, Storage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, storage = fetching
    said = json.loads(keeper.ask(f"show {REAL}"))
    document = json.loads(said["backup"])
    more = json.dumps({**said, "backup": json.dumps(change(document, files=7))}).encode()
    for lies in ({"show": more}, {"manifest_of": gzip.compress(b"[]\n")}, {"manifest_of": b""}):
        with pytest.raises(NodeError):
            transfer.fetch(REAL, str(storage.directory), liar(keeper, tmp_path, **lies))
        assert backup_set.names(str(storage.directory)) == []
    monkeypatch.setattr(transfer, "ANSWER", 10)
    with pytest.raises(NodeError, match="longer than 10 bytes"):
        transfer.names(liar(keeper, tmp_path))
    monkeypatch.setitem(transfer.SECONDS, "list", 0.2)
    with pytest.raises(NodeError, match="ended with -9"):
        transfer.names(transfer.Remote("nas2", ("sh", "-c", "exec sleep 20")))


@pytest.mark.btrfs
def test_where_nothing_can_be_shared_with_an_earlier_set_all_is_sent(
    real: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux before 5.18 shares no extents between two mounts."""
    asked: list[str] = []

    def call(remote: transfer.Remote, *words: str, data: bytes | None = None) -> str:
        asked.append(words[0])
        return REAL if words[0] == "list" else real.clock()

    def part(backup: object, part: str, remote: object, parent: backup_set.Backup | None) -> None:
        asked.append(f"{part} {parent is not None}")
        if parent is not None:
            raise NodeError("Invalid cross-device link")

    monkeypatch.setattr(transfer, "_call", call)
    monkeypatch.setattr(transfer, "_send_part", part)
    earlier = backup_set.complete(str(real.directory))[0]
    newer = replace(earlier, name=FALSE, homes={})
    transfer.send(newer, transfer.Remote("nas2", ()), [earlier])
    assert asked == ["list", "begin", "homes True", "begin", "homes False", "commit", "verify"]

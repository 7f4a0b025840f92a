"""What a host that sends second copies may not do, whatever it sends: it may have been taken over."""

import base64
import contextlib
import fcntl
import gzip
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import (
    arriving,
    backup_set,
    copy_server,
    home_manifest,
    making,
    pruning,
    received,
    retention,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.copy_stream import Bounds, Room
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.home_manifest import Line, Writer
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.verifying import Limits
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.wire import Link
from ansible_collections.gpuadmin.node.plugins.module_utils.each import MEMORY
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.storage import mounted, run

REAL, FALSE = "20261221T010203Z-reset-2026-2", "20261222T010203Z-daily"
PATIENT = Bounds(idle=120, total=600)  # of a machine that does much else; what is sent here has an end
Records = list[tuple[str, bytes, dict[str, Any]]]


class Clock:
    """This host's."""

    def __init__(self) -> None:
        self.now = datetime(2026, 12, 23, tzinfo=UTC)

    def __call__(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def name(self, label: str) -> str:
        return self.now.strftime("%Y%m%dT%H%M%SZ-") + label


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(backup_set, "now", clock)
    return clock


GIVEN = {"uid": 20001, "gid": 20001, "mode": 0o600, "times": [0, 7]}
TOP = {**GIVEN, "mode": 0o700}
HONEST: Records = [
    ("file", b"", {"name": "thesis", "size": 9}),
    ("data", b"precious\n", {"at": 0}),
    ("give", b"", GIVEN),
    ("end", b"", TOP),
]


def record(operation: str, data: bytes = b"", **fields: Any) -> tuple[str, bytes, dict[str, Any]]:
    return operation, data, fields


def stream(home: dict[str, Any], manifest: bytes, records: Records, opening: str = "home") -> bytes:
    with tempfile.TemporaryFile() as out, Path(os.devnull).open("rb") as nothing:
        link = Link(nothing.fileno(), out.fileno())
        link.put(opening, home=home)
        link.put("manifest", manifest)
        link.put("listed")
        for operation, data, fields in records:
            link.put(operation, data, **fields)
        link.flush()
        out.seek(0)
        return out.read()


class Keeper:
    """The host that keeps copies, as whoever has the key meets it."""

    def __init__(self, point: Path, clock: Clock) -> None:
        self.point = point
        self.directory = point / "copies"
        self.clock = clock
        self.ordinary: int | None = 1
        self.streamed = b""  # by the last answer

    def ask(self, request: str, data: bytes = b"", limits: Limits | None = None, bounds: Bounds = PATIENT) -> str:
        asked = copy_server.Settings(self.ordinary, limits or Limits(600, 10_000), bounds, 0.2)
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out:
            given.write(data)
            given.seek(0)
            answer = copy_server.serve(str(self.directory), request, given.fileno(), out.fileno(), asked)
            out.seek(0)
            self.streamed = out.read()
            return answer

    def lines(self) -> list[Line]:
        """The manifest of what HONEST makes."""
        home = self.point / "model"
        home.mkdir(mode=0o700, exist_ok=True)
        (home / "thesis").write_bytes(b"precious\n")
        (home / "thesis").chmod(0o600)
        for path in (home / "thesis", home):
            os.chown(path, 20001, 20001)
        os.utime(home / "thesis", ns=(0, 7))
        return list(arriving.home_reader.lines(str(home)))

    def packed(self, lines: list[Line]) -> bytes:
        parts: list[bytes] = []
        home_manifest.total(iter(lines), Writer(parts.append))
        return gzip.compress(b"".join(parts))

    def home(self, **more: Any) -> dict[str, Any]:
        total = vars(home_manifest.total(iter(self.lines())))
        return {"uid": 20001, "inode": 257, "volume": "", **total, "nested": {},
                "verified": "2099-01-01T00:00:00Z", **more}  # fmt: skip

    def document(self, **more: Any) -> dict[str, Any]:
        return {"format": backup_set.FORMAT, "created": self.clock(), "root": "/srv/homes", "inside": ".",
                "homes": {"minji": self.home()}, "problems": {}, "copies": {}, **more}  # fmt: skip

    def begin(self, name: str = FALSE, **more: Any) -> dict[str, list[str]]:
        answer: dict[str, list[str]] = json.loads(self.ask(f"begin {name}", json.dumps(self.document(**more)).encode()))
        return answer

    def send(self, records: Records, name: str = FALSE, user: str = "minji", **more: Any) -> None:
        self.ask(f"home {name} {user}", stream(self.home(**more), self.packed(self.lines()), records))

    def invent(self, name: str, *, verify: bool = True, **more: Any) -> None:
        """A set that is complete and well formed, of a home that nobody has."""
        self.begin(name, homes={"minji": self.home(checksum="1" * 64)}, **more)  # so that it is kept from none
        self.send(HONEST, name)
        if verify:
            self.ask(f"verify {name} minji")
        self.ask(f"commit {name}")

    @property
    def names(self) -> list[str]:
        return [one.name for one in backup_set.complete(str(self.directory))]

    def left(self, name: str = FALSE) -> list[str]:
        """What there is of homes in a set, whole or not."""
        found = [*(self.directory / name).glob("homes/*"), *(self.directory / name).glob("manifest/*")]
        return sorted(str(one.relative_to(self.directory / name)) for one in found)

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


PRIVATE = Path("/etc/hostname")
#: What no gpuadmin sends, and how it ends.
ODD: list[tuple[str, Records]] = [
    ("a record without a name", [record("file", name=name, size=1)])
    for name in ("", ".", "..", "a/b", "../../x", "a\0b", "x" * 256, 7, None)
] + [
    ("a record without a name", [record("enter", name="..")]),
    ("a record without a name", [record("link", name="../x", id="1-1")]),
    ("a record without a name", [record("remove", name="../minji")]),
    ("there is nothing above", [record("leave", **GIVEN)]),
    ("id is not valid", [record("link", name="x", id="../../manifest/minji.gz")]),
    ("id is not valid", [record("file", name="x", size=0), record("give", **GIVEN, id="..")]),
    ("No such file", [record("link", name="x", id="1-1")]),
    ("Not a directory", [record("symlink", name="l", target="/etc", **GIVEN), record("enter", name="l")]),
    ("symbolic links", [record("symlink", name="l", target=str(PRIVATE), **GIVEN), record("patch", name="l", size=0)]),
    ("a link leads to nothing", [record("symlink", name="l", target=str(PRIVATE), **GIVEN), record("meta", name="l")]),
    ("kept is not a file", [record("symlink", name="l", target="x", **GIVEN), record("keep", name="l", id="1-1")]),
    ("what is changed is not a file",
     [record("node", name="p", kind=0o010000, device=0), record("give", **GIVEN), record("patch", name="p", size=0)]),
    ("a node of an unknown kind", [record("node", name="n", kind=0o100000, device=0)]),
    ("outside of its place", [record("file", name="x", size=4), record("data", b"12345", at=0)]),
    ("outside of its place",
     [record("file", name="x", size=9), record("data", b"12", at=2), record("data", b"1", at=1)]),
    ("outside of its place", [record("file", name="x", size=4), record("hole", at=2, length=1 << 60)]),
    ("at is not a number", [record("file", name="x", size=4), record("data", b"1", at=-1)]),
    ("is not understood here", [record("data", b"1", at=0)]),
    ("is not understood here", [record("give", **GIVEN)]),
    ("is not understood here", [record("file", name="x", size=1), record("mkdir", name="y")]),
    ("is not understood here", [record("run", name="x")]),
    ("in the middle of something", [record("mkdir", name="x"), record("end", **TOP)]),
    ("in the middle of something", [record("file", name="x", size=1), record("end", **TOP)]),
    ("cannot be read", [record("file", name="x", size=1), record("give", **{**GIVEN, "times": [1]})]),
    ("attributes", [record("file", name="x", size=1), record("give", **GIVEN, attributes=[1])]),
    ("cannot be read", [record("file", name="x", size=1), record("give", **GIVEN, attributes={"user.x": "?"})]),
    ("cannot be read", [record("file", name="x", size=1), record("give", uid=0, gid=0, mode=0o600)]),
    ("cannot be read", [record("symlink", name="x", **GIVEN)]),
    ("cannot be read", [record("end", **{**TOP, "times": [1]})]),
    ("cannot be read", [record("end", **TOP, attributes={"user.x": None})]),
    ("File exists", [record("mkdir", name="x"), record("leave", **GIVEN), record("mkdir", name="x")]),
    ("not what was sent", [record("end", **TOP)]),
    ("not what was sent", [*HONEST[:1], record("data", b"Precious\n", at=0), *HONEST[2:]]),
    ("not what was sent", [record("mkdir", name="more"), record("leave", **GIVEN), *HONEST]),
    ("stopped before the end", HONEST[:-1]),
]  # fmt: skip


@pytest.mark.btrfs
def test_what_is_no_home_leaves_nothing(real: Keeper) -> None:
    """Nothing outside of the home is reached, nothing of it stays, and the next one finds no trace of it."""
    before, private = real.picture(), PRIVATE.read_bytes()
    real.begin(homes={"minji": real.home(checksum="1" * 64)})
    for words, records in ODD:
        with pytest.raises((NodeError, OSError), match=words):
            real.send(records)
        assert (real.left(), real.names, PRIVATE.read_bytes()) == ([], [REAL], private), records
    assert real.picture() == before
    real.send(HONEST)
    assert real.left() == ["homes/minji", "manifest/minji.gz"]


@pytest.mark.btrfs
@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
def test_records_of_any_kind_end_in_a_sentence(real: Keeper, data: st.DataObject) -> None:
    """Fields of any shape in any order: refused, and the set that is there is as it was."""
    value = st.one_of(
        st.integers(-2, 1 << 70), st.text(max_size=4), st.none(), st.lists(st.integers(), max_size=3),
        st.sampled_from(["thesis", "x", "..", "1-1", "/etc"]), st.dictionaries(st.text(max_size=3), st.none()),
    )  # fmt: skip
    fields = st.dictionaries(
        st.sampled_from(["name", "size", "at", "id", "kind", "device", "target", "length", *GIVEN, "attributes"]), value
    )
    kinds = st.sampled_from(["mkdir", "enter", "leave", "file", "patch", "data", "hole", "meta", "node", "give", "keep",
                             "link", "symlink", "remove", "end", "wait", "manifest"])  # fmt: skip
    some = data.draw(st.lists(st.tuples(kinds, st.binary(max_size=5), fields), max_size=8))
    if FALSE not in backup_set.names(str(real.directory)):
        real.begin(homes={"minji": real.home(checksum="1" * 64)})
    try:
        real.send([*some, *HONEST])
    except (NodeError, OSError):
        assert real.names == [REAL]
    else:
        backup_set.remove(str(real.directory), FALSE)
    assert Path(real.directory / REAL / "homes/minji/thesis").read_bytes() == b"precious\n"


@pytest.mark.btrfs
@given(noise=st.binary(max_size=400))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
def test_bytes_of_any_kind_end_in_a_sentence(real: Keeper, noise: bytes) -> None:
    real.begin(homes={"minji": real.home(checksum="1" * 64)})
    begun = stream(real.home(), real.packed(real.lines()), [])
    for data in (noise, begun + noise):
        with pytest.raises((NodeError, OSError)):
            real.ask(f"home {FALSE} minji", data)
    assert real.left() == []


@pytest.mark.btrfs
def test_a_home_costs_no_more_than_it_may(real: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    real.begin(homes={"minji": real.home(checksum="1" * 64)})
    many = [
        one for number in range(600) for one in (record("file", name=f"n{number}", size=0), record("give", **GIVEN))
    ]
    data = stream(real.home(), real.packed(real.lines()), many)
    with pytest.raises(NodeError, match="holds more than 500 entries"):
        real.ask(f"home {FALSE} minji", data, limits=Limits(600, 500))
    bomb = gzip.compress(b'{"manifest":3}\n' + b'[0,"x","d",0,0,0,0,0,"","","",0,0]\n' * 100_000)
    with pytest.raises(NodeError, match="holds more than 10000 entries"):
        real.ask(f"home {FALSE} minji", stream(real.home(), bomb, HONEST))
    with pytest.raises(NodeError, match="manifest is not the one"):
        real.send(HONEST, entries=7)
    monkeypatch.setattr(received, "MANIFEST", 10)
    with pytest.raises(NodeError, match="longer than 10 bytes"):
        real.send(HONEST)
    monkeypatch.setattr(received, "DOCUMENT", 10)
    with pytest.raises(NodeError, match=r"\Ait is longer than 10 bytes"):
        real.begin()
    assert real.left() == []


@pytest.mark.btrfs
def test_the_disk_is_not_filled(real: Keeper) -> None:
    real.begin(homes={"minji": real.home(checksum="1" * 64)})
    full = [record("file", name="big", size=1 << 40)]
    full += [record("data", os.urandom(1 << 20), at=number << 20) for number in range(300)]
    # btrfs may refuse before it tells statvfs(2) what it has not written yet; the sender takes both for the same
    with pytest.raises((NodeError, OSError), match=r"would stay free|No space left on device"):
        real.send(full)
    space = os.statvfs(real.point)
    assert (real.left(), space.f_bfree * 20 > space.f_blocks) == ([], True)


@pytest.mark.btrfs
def test_the_disk_is_not_filled_by_attributes(real: Keeper) -> None:
    """An empty file may have megabytes of them."""
    real.begin(homes={"minji": real.home(checksum="1" * 64)})
    large = {f"user.{number}": base64.b64encode(os.urandom(3000)).decode() for number in range(900)}
    full: Records = []
    for number in range(60):
        full += [record("file", name=f"f{number}", size=0), record("give", **GIVEN, attributes=large)]
    with pytest.raises((NodeError, OSError), match=r"would stay free|No space left on device"):
        real.send(full)
    assert real.left() == []


@pytest.mark.btrfs
def test_a_sender_that_stalls_is_ended(real: Keeper) -> None:
    """Meanwhile sets are listed, begun and filled; that home of that set has one connection."""
    real.begin(homes={"minji": real.home(checksum="1" * 64)})
    read, write = os.pipe()
    os.write(write, stream(real.home(), real.packed(real.lines()), HONEST[:2]))
    said: list[str] = []

    def stall() -> None:
        asked = copy_server.Settings(1, Limits(), Bounds(idle=8, total=60))
        with tempfile.TemporaryFile() as out:
            try:
                copy_server.serve(str(real.directory), f"home {FALSE} minji", read, out.fileno(), asked)
            except NodeError as error:
                said.append(str(error))

    stalling = threading.Thread(target=stall)
    stalling.start()
    while not (real.directory / FALSE / "homes/.minji.part").exists():
        assert stalling.is_alive()
        time.sleep(0.05)  # until the thread is at it
    with pytest.raises(NodeError, match="another connection is bringing this home"):
        real.send(HONEST)
    assert set(json.loads(real.ask("list"))["sets"]) == {REAL}  # what arrives is not a backup
    real.invent("20261222T030405Z-manual")  # and what is begun then leaves it alone
    with pytest.raises(backup_set.InUse):
        backup_set.remove(str(real.directory), FALSE)
    stalling.join(60)
    os.close(write)
    os.close(read)
    assert "stood still" in said[0]
    real.send(HONEST)


@pytest.mark.btrfs
def test_what_an_interruption_left_goes_at_the_next_begin(real: Keeper) -> None:
    real.begin(homes={"minji": real.home(checksum="1" * 64)})
    run("btrfs", "subvolume", "create", real.directory / FALSE / "homes/.minji.part")
    run("btrfs", "subvolume", "create", real.directory / REAL / "homes/.jiho.part")
    before = real.picture()
    real.begin("20261222T020304Z-manual")
    assert not (real.directory / FALSE).exists()
    assert len(real.picture()) == len(before) - 1


@pytest.mark.btrfs
def test_a_home_that_is_there_is_not_changed(real: Keeper) -> None:
    before = real.picture()
    with pytest.raises(NodeError, match=r"minji is in .* already"):
        real.send(HONEST, REAL)
    with pytest.raises(NodeError, match="is another set here"):
        real.begin(REAL, created="2026-12-20T00:00:00Z")
    (real.directory / FALSE).mkdir()
    with pytest.raises(NodeError, match="was not begun here"):
        real.send(HONEST)
    real.begin(REAL)
    assert real.picture() == before


def _meanwhile(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], object]) -> None:
    """Once, right before ``arriving.name`` is done, another connection does this."""
    usual = getattr(arriving, name)

    def late(*given: Any, **more: Any) -> Any:
        monkeypatch.setattr(arriving, name, usual)
        act()
        return usual(*given, **more)

    monkeypatch.setattr(arriving, name, late)


@pytest.mark.btrfs
@pytest.mark.parametrize("moment", ["_alone", "_settle", "_record"])
def test_two_connections_for_one_home_delete_nothing(
    real: Keeper, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """One ends well at a bad moment of the other, which breaks off: the home is there whole, as the set says."""
    real.begin(homes={"minji": real.home(checksum="1" * 64)})  # so that it is kept from none
    other = HONEST if moment == "_alone" else HONEST[:1]

    def bring() -> None:
        with contextlib.suppress(NodeError):
            real.send(other)

    _meanwhile(monkeypatch, moment, bring)
    with contextlib.suppress(NodeError):
        real.send(HONEST[:1] if moment == "_alone" else HONEST)
    assert real.names == [REAL, FALSE]
    assert real.left() == ["homes/minji", "manifest/minji.gz"]
    assert (real.directory / FALSE / "homes/minji/thesis").read_bytes() == b"precious\n"
    real.ask(f"verify {FALSE} minji")


@pytest.mark.btrfs
@pytest.mark.parametrize("moment", ["_compare", "_settle", "_record"])
def test_what_arrives_is_not_kept_from_an_earlier_set_as_well(
    real: Keeper, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    real.begin(homes={"minji": real.home(checksum="1" * 64)})
    _meanwhile(monkeypatch, moment, real.begin)
    real.send(HONEST)
    assert real.left() == ["homes/minji", "manifest/minji.gz"]
    real.ask(f"verify {FALSE} minji")


#: What is told of a home that is here, and of its set: whether the one here is that one.
TOLD: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({}, {}, True),
    ({"checksum": "1" * 64}, {}, False),
    ({"uid": 20002}, {}, False),  # its number belongs to somebody else now
    ({}, {"format": 1}, False),  # sums of another kind
]


@pytest.mark.btrfs
def test_only_what_is_the_same_home_is_not_sent(real: Keeper) -> None:
    for number, (home, more, same) in enumerate(TOLD):
        told, want = {"homes": {"minji": real.home(**home)}, **more}, ["minji"] if same else []
        assert real.begin(f"20261222T01000{number}Z-manual", **told) == {"there": [], "kept": want}, told
    for home, _more, same in TOLD[:3]:
        told, want = {"homes": {"minji": real.home(**home)}}, ["minji"] if same else []
        assert real.begin(REAL, **told) == {"there": want, "kept": []}, told
    assert real.begin("20261222T010009Z-manual", homes={}) == {"there": [], "kept": []}, "whoever left is not missed"


@pytest.mark.btrfs
def test_a_home_that_is_no_snapshot_here_is_sent(real: Keeper) -> None:
    """In a set of an older gpuadmin it is a directory of one snapshot of all; a difference is put on a copy of it."""
    old = real.directory / REAL / "homes/minji"
    run("cp", "-a", old, old.with_name("copy"))
    run("btrfs", "subvolume", "delete", old)
    old.with_name("copy").rename(old)
    assert real.begin() == {"there": [], "kept": []}
    difference = stream(real.home(), real.packed(real.lines()), HONEST[3:])
    real.ask(f"home {FALSE} minji {REAL}", difference)
    assert real.left() == ["homes/minji", "manifest/minji.gz"]
    assert (old / "thesis").read_bytes() == b"precious\n"


@pytest.mark.btrfs
def test_what_is_kept_is_as_it_is_here_and_not_as_it_is_told(real: Keeper) -> None:
    told = real.home(nested={"data": "nested/0"}, verified="2099-01-01T00:00:00Z")
    real.begin(homes={"minji": told})
    for name, verified in ((REAL, True), (FALSE, False)):
        found = backup_set.load(str(real.directory), name)
        assert found is not None
        assert (bool(found.homes["minji"].verified), found.homes["minji"].nested) == (verified, {})
    assert (real.directory / FALSE / "homes/minji/thesis").read_bytes() == b"precious\n"
    real.ask(f"verify {FALSE} minji")
    before = real.picture(FALSE)
    assert real.begin() == {"there": ["minji"], "kept": []}
    assert real.picture(FALSE) == before, "what is there, and was verified, is not kept once more"


def deleted_meanwhile(real: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever a snapshot is made, somebody tries to delete the set, and is refused."""
    usual = arriving.btrfs.snapshot

    def snapshot(*given: Any, **more: Any) -> None:
        with pytest.raises(backup_set.InUse):
            backup_set.remove(str(real.directory), REAL)
        usual(*given, **more)

    monkeypatch.setattr(arriving.btrfs, "snapshot", snapshot)


@pytest.mark.btrfs
def test_what_homes_are_kept_from_is_not_deleted_meanwhile(real: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted_meanwhile(real, monkeypatch)
    assert real.begin()["kept"] == ["minji"]
    assert real.names == [REAL, FALSE]


@pytest.mark.btrfs
@pytest.mark.parametrize("left", ["homes/minji", "homes/.minji.part", "manifest/minji.gz"])
@pytest.mark.parametrize("how", ["kept", "sent"])
def test_what_an_interruption_left_of_a_home_is_not_in_its_way(real: Keeper, left: str, how: str) -> None:
    real.begin(homes={"minji": real.home(checksum="1" * 64)})
    if left.startswith("homes"):
        run("btrfs", "subvolume", "create", real.directory / FALSE / left)
    else:
        (real.directory / FALSE / left).write_bytes(b"")
    if how == "kept":
        assert real.begin()["kept"] == ["minji"]
    else:
        real.send(HONEST)
    assert real.left() == ["homes/minji", "manifest/minji.gz"]
    real.ask(f"verify {FALSE} minji")


@pytest.mark.btrfs
def test_a_difference_is_put_on_the_home_that_is_here(real: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has touched is read, though a file's clock lags behind, and what it is put on stays meanwhile."""
    real.begin(homes={"minji": real.home(checksum="1" * 64)})

    def send(records: Records, user: str = "minji", parent: str = REAL) -> None:
        real.ask(f"home {FALSE} {user} {parent}", stream(real.home(), real.packed(real.lines()), records))

    for user, parent in (("minji", FALSE), ("jiho", REAL)):
        with pytest.raises(NodeError, match=f"there is no home of {user} in {parent} here"):
            send(HONEST[3:], user, parent)
    monkeypatch.setattr(arriving, "time", SimpleNamespace(time_ns=lambda: time.time_ns() + 5 * 10**8))
    wrong = [record("patch", name="thesis", size=9), record("data", b"Precious\n", at=0), *HONEST[2:]]
    with pytest.raises(NodeError, match="not what was sent"):
        send(wrong)
    deleted_meanwhile(real, monkeypatch)
    send(HONEST[3:])
    assert real.left() == ["homes/minji", "manifest/minji.gz"]


@pytest.mark.btrfs
def test_a_manifest_that_did_not_come_whole_is_no_part_of_the_next(real: Keeper) -> None:
    real.begin(homes={"minji": real.home(checksum="1" * 64)})
    (real.directory / FALSE / "manifest/.minji.part").write_bytes(os.urandom(10_000))
    real.send(HONEST)
    real.ask(f"verify {FALSE} minji")


@pytest.mark.btrfs
@pytest.mark.parametrize("third", [False, True])
def test_a_manifest_that_has_got_its_name_is_not_written_to(
    real: Keeper, monkeypatch: pytest.MonkeyPatch, third: bool
) -> None:
    """Another connection brings the home, and perhaps a third one begins, between opening and locking the file."""
    real.begin(homes={"minji": real.home(checksum="1" * 64)})
    usual = fcntl.flock

    def late(handle: int, how: int) -> None:
        monkeypatch.setattr(arriving, "fcntl", fcntl)
        real.send(HONEST)
        if third:
            (real.directory / FALSE / "manifest/.minji.part").write_bytes(b"")
        usual(handle, how)

    monkeypatch.setattr(arriving, "fcntl", SimpleNamespace(flock=late, LOCK_EX=fcntl.LOCK_EX, LOCK_NB=fcntl.LOCK_NB))
    with pytest.raises(NodeError, match="another connection has just brought this home"):
        real.send(HONEST)
    real.ask(f"verify {FALSE} minji")


@pytest.mark.btrfs
def test_a_set_of_an_older_gpuadmin_gets_nothing_more(real: Keeper) -> None:
    """All homes are one snapshot there."""
    real.begin(homes={"minji": real.home(checksum="1" * 64)})
    homes = real.directory / FALSE / "homes"
    homes.rmdir()
    for place in (homes, homes / ".jiho.part"):
        run("btrfs", "subvolume", "create", place)
    assert real.begin() == {"there": [], "kept": []}
    with pytest.raises(NodeError, match="was not begun here"):
        real.send(HONEST)
    assert real.left() == ["homes/.jiho.part"]


@pytest.mark.btrfs
@pytest.mark.parametrize(("user", "records"), [("jiho", HONEST), ("minji", HONEST[:1])])
def test_nobody_comes_between_reading_and_writing_what_a_set_has(
    real: Keeper, monkeypatch: pytest.MonkeyPatch, user: str, records: Records
) -> None:
    """Another connection is done, or breaks off, at the moment in which a home is written down."""
    real.begin(homes={"minji": real.home(checksum="1" * 64)})
    usual = backup_set.finish
    others: list[threading.Thread] = []

    def other() -> None:
        with contextlib.suppress(NodeError):
            real.send(records, user=user)

    def finish(backup: backup_set.Backup) -> None:
        if not others:
            others.append(threading.Thread(target=other))
            others[0].start()
            others[0].join(0.7)
        usual(backup)

    monkeypatch.setattr(backup_set, "finish", finish)
    real.send(HONEST)
    others[0].join(30)
    people = sorted({"minji", user})
    found = backup_set.load(str(real.directory), FALSE)
    assert found is not None
    assert sorted(found.homes) == people
    assert real.left() == [*(f"homes/{one}" for one in people), *(f"manifest/{one}.gz" for one in people)]


@pytest.mark.btrfs
@pytest.mark.parametrize("how", ["sent", "kept"])
def test_a_power_cut_leaves_no_home_without_its_manifest(
    keeper: Keeper, disks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The disk as it is at the moment in which a set says that it has a home."""
    if how == "kept":
        keeper.invent(REAL)
    else:
        keeper.begin()
    usual, cut = backup_set.finish, disks / "cut"

    def finish(backup: backup_set.Backup) -> None:
        usual(backup)
        run("cp", "--sparse=always", disks / "disk", cut)

    monkeypatch.setattr(backup_set, "finish", finish)
    keeper.begin() if how == "kept" else keeper.send(HONEST)
    # the same file system is not mounted twice
    run("umount", keeper.point)
    after = tmp_path / "after"
    after.mkdir()
    run("mount", "-o", "loop", cut, after)
    try:
        found = backup_set.load(str(after / "copies"), FALSE)
        assert found is not None
        assert list(found.homes) == ["minji"]
        assert Path(found.home("minji"), "thesis").read_bytes() == b"precious\n"
        total = home_manifest.total(home_manifest.read(found.manifest("minji")))
        assert total.checksum == found.homes["minji"].checksum
    finally:
        run("umount", after)
        cut.unlink()
        run("mount", "-o", "loop", disks / "disk", keeper.point)


@pytest.mark.btrfs
def test_a_home_s_name_is_on_disk_before_the_set_has_the_home(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """btrfs writes the new name of a subvolume with whatever is synced next, and promises that to nobody."""
    keeper.begin()
    done: list[object] = []
    sync, finish = arriving.sync_directory, backup_set.finish

    def names(path: str) -> list[str]:
        return [one.name for one in Path(path).iterdir() if not one.name.startswith(".")]

    monkeypatch.setattr(arriving, "sync_directory", lambda path: (done.append(names(path)), sync(path)))
    monkeypatch.setattr(backup_set, "finish", lambda backup: (done.append("the set has it"), finish(backup)))
    keeper.send(HONEST)
    assert done == [["minji"], ["minji.gz"], "the set has it"]
    home = arriving.btrfs.inspect(str(keeper.directory / FALSE / "homes/minji"))
    assert home is not None
    assert home.read_only


@pytest.mark.holds("deleting a set follows no link to a directory of snapshots")
@pytest.mark.btrfs
def test_deleting_a_set_follows_no_link(keeper: Keeper) -> None:
    """A set of before, whose snapshots are links into another one."""
    keeper.invent(REAL)
    before = keeper.picture()
    for kind in ("homes", "nested"):
        place = keeper.directory / FALSE
        place.mkdir()
        (place / kind).symlink_to(f"../{REAL}/homes")
        backup_set.remove(str(keeper.directory), FALSE)
        assert keeper.picture() == before


@pytest.mark.btrfs
def test_each_word_that_is_no_name_is_refused_as_such(real: Keeper) -> None:
    """And not because nothing has begun, or is there, to which it would lead."""
    (real.directory / REAL / "other").mkdir()
    asked = [f"send {REAL} ../{REAL}/homes", f"send {REAL} ../minji", f"home {REAL} ../minji", "list more", "",
             f"home {FALSE} minji ../x", f"home {FALSE} minji {REAL} {REAL}", f"verify {REAL} ../minji",
             f"verify {REAL} minji x", f"begin {FALSE} x", "begin ../x", f"begin {REAL}/x", f"commit {REAL} x",
             f"send {REAL} minji a b", f"receive {FALSE} homes x"]  # fmt: skip
    for request in asked:
        with pytest.raises(NodeError, match=r"\Anot understood; .*gpuadmin provision"):
            real.ask(request)
    for path in ("../../../etc/shadow", "/etc/shadow", "a/../../x"):
        with pytest.raises(NodeError, match="is not a path inside of the home"):
            real.ask(f"send {REAL} minji {path}")


@pytest.mark.btrfs
def test_copies_lie_in_a_directory_of_root_s_own_on_btrfs(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper.directory.mkdir()
    os.chown(keeper.directory, 20001, 20001)
    with pytest.raises(NodeError, match="root alone can enter"):
        keeper.ask("list")
    os.chown(keeper.directory, 0, 0)
    keeper.directory.chmod(0o700)
    assert keeper.ask("list") == '{"sets": {}}'
    monkeypatch.setattr(arriving.btrfs, "subvolume", lambda _path: None)
    with pytest.raises(NodeError, match="is not on btrfs"):
        keeper.ask("list")


@pytest.mark.btrfs
def test_where_there_is_no_room_nothing_is_begun(keeper: Keeper) -> None:
    with pytest.raises(NodeError, match="would stay free"):
        keeper.ask(f"begin {FALSE}", json.dumps(keeper.document()).encode(), bounds=Bounds(2, 20, reserve=1.0))
    assert not (keeper.directory / FALSE).exists()


@pytest.mark.btrfs
def test_one_set_is_begun_at_a_time_and_not_for_ever(real: Keeper) -> None:
    with flocked(str(real.directory / copy_server.LOCK)), pytest.raises(NodeError, match="has been held"):
        real.begin()
    read, write = os.pipe()
    ending = threading.Timer(8, os.close, [write])  # only so that this test ends
    ending.start()
    asked = copy_server.Settings(bounds=Bounds(idle=0.2, total=20))
    with pytest.raises(NodeError, match="stood still"):
        copy_server.serve(str(real.directory), f"begin {FALSE}", read, read, asked)
    ending.cancel()
    assert real.names == [REAL]
    os.close(read)
    os.close(write)


@pytest.mark.btrfs
@pytest.mark.parametrize("verb", ["home", "verify"])
def test_who_reads_for_long_gives_signs_of_life(real: Keeper, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """The caller gives up on a host that says nothing."""
    real.begin(homes={"minji": real.home(checksum="1" * 64)})
    monkeypatch.setattr(copy_server, "ALIVE", 0.05)
    monkeypatch.setattr(arriving, "_compare", lambda *_rest: time.sleep(0.3))  # it reads
    monkeypatch.setattr(making, "verify_one", lambda *_rest: time.sleep(0.3))  # it reads
    real.send(HONEST) if verb == "home" else real.ask(f"verify {REAL} minji")
    assert real.streamed.count(b'"wait"') > 1


def test_no_sign_of_life_is_left_half_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows it would be in the middle of it."""
    said: list[str] = []
    # half of a word is there for so long
    link: Any = SimpleNamespace(put=lambda _word: time.sleep(0.2), flush=lambda: said.append("wait"))
    monkeypatch.setattr(copy_server, "ALIVE", 0.4)
    with copy_server._alive(link):
        time.sleep(0.5)  # until the first sign of life has begun
    assert said == ["wait"]


@pytest.mark.btrfs
def test_what_is_verified_costs_no_more_than_it_may(real: Keeper) -> None:
    with pytest.raises(NodeError, match="holds more than 0 entries"):
        real.ask(f"verify {REAL} minji", limits=Limits(600, 0))


@pytest.mark.btrfs
def test_what_is_sent_back_is_not_deleted_meanwhile(real: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def send(*_rest: object) -> None:
        with pytest.raises(backup_set.InUse):
            backup_set.remove(str(real.directory), REAL)
        tried.append(REAL)

    for name in ("send", "send_part"):
        monkeypatch.setattr(copy_server.sending, name, send)
    real.ask(f"send {REAL} minji")
    real.ask(f"send {REAL} minji thesis")
    assert (tried, real.names) == ([REAL, REAL], [REAL])


@pytest.mark.parametrize("error", [NodeError("odd"), OSError(5, "odd"), ValueError("odd")])
def test_whatever_goes_wrong_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    asked: list[object] = []

    def serve(directory: str, request: str, settings: copy_server.Settings) -> str:
        asked.extend((directory, request, settings))
        if request == "list":
            raise error
        return ""

    monkeypatch.setattr(copy_server, "serve", serve)
    monkeypatch.setattr(copy_server, "bound_memory", asked.append)
    monkeypatch.setenv("SSH_ORIGINAL_COMMAND", "list")
    assert copy_server.main("/d", 3, 60, 500) == 1
    assert asked == [MEMORY, "/d", "list", copy_server.Settings(3, Limits(60, 500))]
    said = capsys.readouterr()
    assert (said.out, said.err.startswith("Error: "), "odd" in said.err) == ("", True, True)
    monkeypatch.setenv("SSH_ORIGINAL_COMMAND", "send")
    assert copy_server.main("/d") == 0
    assert capsys.readouterr().out == "", "after a stream nothing follows"


@pytest.mark.btrfs
def test_what_is_not_there_is_said_in_words(real: Keeper) -> None:
    for request in (f"send {FALSE} minji", f"verify {FALSE} minji"):
        with pytest.raises(NodeError, match=f"there is no complete {FALSE} here"):
            real.ask(request)
    for request in (f"send {REAL} jiho", f"send {REAL} jiho thesis", f"verify {REAL} jiho"):
        with pytest.raises(NodeError, match=f"{REAL} has no home of jiho here"):
            real.ask(request)


@pytest.mark.btrfs
def test_a_home_begins_with_what_it_is(real: Keeper) -> None:
    """Nothing else opens one, though it says the same and all that follows is right."""
    real.begin(homes={"minji": real.home(checksum="1" * 64)})
    with pytest.raises(NodeError, match=r"\Anot understood"):
        real.ask(f"home {FALSE} minji", stream(real.home(), real.packed(real.lines()), HONEST, opening="wait"))
    assert real.left() == []


@pytest.mark.btrfs
def test_what_is_no_description_of_a_home_opens_none(real: Keeper) -> None:
    real.begin(homes={"minji": real.home(checksum="1" * 64)})
    odd: list[dict[str, Any]] = [
        {"uid": 2**40}, {"inode": "x"}, {"volume": "../.."}, {"nested": {"..": "nested/0"}}, {"verified": "yes"},
        {"more": 1},
    ]  # fmt: skip
    for told in odd:
        with pytest.raises(NodeError, match="said of the home of 'minji' is refused"):
            real.send(HONEST, **told)
        assert real.left() == [], told


@pytest.mark.btrfs
def test_what_the_sender_says_of_times_and_proof_is_not_believed(real: Keeper) -> None:
    real.invent(FALSE, verify=False, copies={"elsewhere": "2026-12-22T00:00:00Z"}, uncopied={"elsewhere": {"a": "b"}},
                inside="deep/homes", created="2020-01-01T00:00:00Z")  # fmt: skip
    found = backup_set.load(str(real.directory), FALSE)
    assert found is not None
    assert (found.homes["minji"].verified, found.copies, found.uncopied) == (None, {}, {})
    assert Path(found.home("minji"), "thesis").exists(), "where homes lie here is not for the sender to say"
    assert received.arrived(found.path) == real.clock.now


def test_the_future_is_refused(clock: Clock) -> None:
    """A set with such a name would be the newest for ever."""
    document = {"format": backup_set.FORMAT, "created": clock(), "root": "/r", "inside": ".", "problems": {},
                "copies": {}, "homes": {}}  # fmt: skip
    for name, created, words in (
        ("20261223T003000Z-daily", clock(), "in the future"), ("20990101T000000Z-daily", clock(), "in the future"),
        ("20261322T000000Z-daily", clock(), "has no time in it"), (REAL, "2026-12-23T00:30:00Z", "in the future"),
    ):  # fmt: skip
        with pytest.raises(NodeError, match=words):
            received.parse("/d", name, json.dumps({**document, "created": created}))
    assert received.parse("/d", "20261223T000500Z-daily", json.dumps(document)).homes == {}


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


def test_sizes_that_are_only_numbers_are_told() -> None:
    """A home of 200,000 sparse files of 8 EiB: the set that has it is a set for everybody else in it."""
    huge = {"created": "2026-11-21T01:02:03Z", "root": "/srv/homes", "inside": "homes", "problems": {}, "copies": {},
            "format": 2, "homes": {"minji": {**MINE, "bytes": 200_000 * (2**63 - 1)}, "jiho": MINE}}  # fmt: skip
    assert set(received.parse("/x", "20261121T010203Z-daily", json.dumps(huge)).homes) == {"minji", "jiho"}


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
def test_so_many_in_a_day(real: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_server, "PER_DAY", 3)
    for _ in range(2):
        real.clock.now += timedelta(hours=1)
        real.invent(real.clock.name("daily"))
    with pytest.raises(NodeError, match="3 sets came in the last 24 hours"):
        real.begin(real.clock.name("manual"))
    real.begin(REAL, created="2026-12-23T00:00:00Z")  # that one is here
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
def test_what_goes_goes_before_a_set_comes_and_when_it_is_complete(keeper: Keeper) -> None:
    """Of the timer's, one stays here. What an admin made stays, however old; what is read goes the next time."""

    def invent(label: str, **later: int) -> str:
        keeper.clock.now += timedelta(**later)
        name = keeper.clock.name(label)
        keeper.invent(name)
        return name

    invent("daily", days=40)
    manual, third = invent("manual", days=40), invent("daily", days=40)
    assert keeper.names == [manual, third]
    fourth = invent("daily", hours=1)
    keeper.clock.now += timedelta(days=40)
    with backup_set.reading(str(keeper.directory), third):
        keeper.begin(keeper.clock.name("daily"), homes={})
        assert keeper.names == [manual, third, fourth]
    keeper.begin(keeper.clock.name("daily"), homes={})
    assert keeper.names == [manual, fourth]


@pytest.mark.btrfs
def test_one_that_does_not_go_keeps_no_other(real: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    names, real.ordinary = [REAL], None
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
    words = f"deleted {names[2]}; not deleted: {names[1]}: it is being read"
    with pytest.raises(NodeError, match=words) as caught:
        pruning.prune(str(real.directory), pruning.FOR_EVER, 1)
    assert type(caught.value) is NodeError, "who waits for a reader does not wait for this"


@pytest.mark.holds("a second copy stays its time", "age counts from this host's clock")
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


def test_a_disk_with_room_is_not_written_out_for_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(f"{Room.__module__}.sync_filesystem", synced.append)
    room = Room(str(tmp_path), Bounds(reserve=0.0))
    for _ in range(1000):
        room.spend(1)
    assert synced == []

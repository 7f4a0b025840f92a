"""A round: what is unchanged is not walked again, what was cut off goes on, nobody's directory is another's matter."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.disk import measuring as package
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.measuring import directories, measure_round, measured
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.people import people
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.records import Place, Records
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from tests.support.failing import fail_for, raising
from tests.support.storage import Storage, mounted

DAY = 86400.0


def ended(places: list[Place], records: Records, now: float = 0.0) -> dict[str, str]:
    return {Path(done.path).name: done.problem for done in measure_round(places, records, 60, lambda: now)}


@pytest.fixture
def plain(tmp_path: Path) -> Place:
    for name in ("minji", "jiho"):
        (tmp_path / "homes" / name).mkdir(parents=True)
        (tmp_path / "homes" / name / "f").write_bytes(b"x" * 100_000)
    (tmp_path / "homes/link").symlink_to("minji")
    (tmp_path / "homes/file").write_bytes(b"x")
    return Place("homes", str(tmp_path / "homes"))


def test_each_directory_by_itself(plain: Place) -> None:
    records: Records = {}
    assert ended([plain], records) == {"jiho": "", "minji": ""}
    (found,) = records[plain.path, "minji"].people.values()
    assert found.bytes >= 100_000
    assert found.inodes == 2
    assert list(records[plain.path, "minji"].people) == [str(os.getuid())]


def test_what_was_measured_is_left_for_half_a_day_and_what_is_gone_goes(plain: Place) -> None:
    records: Records = {}
    ended([plain], records)
    now = records[plain.path, "minji"].began
    del records[plain.path, "jiho"]
    assert ended([plain], records, now + 3600) == {"jiho": ""}, "a round that was cut off goes on"
    (Path(plain.path) / "jiho/f").unlink()
    (Path(plain.path) / "jiho").rmdir()
    assert ended([plain], records, now + DAY) == {"minji": ""}
    assert set(records) == {(plain.path, "minji")}
    assert ended([Place("scratch", plain.path, by_owner=True)], records, now + DAY) == {"homes": ""}
    assert set(records) == {(plain.path, "")}


def test_who_has_waited_longest_comes_first(plain: Place) -> None:
    records: Records = {}
    ended([plain], records)
    old = package.replace(records[plain.path, "minji"], began=1.0)
    records[plain.path, "minji"] = old
    assert [*ended([plain], records, 10 * DAY + old.when)] == ["minji", "jiho"]


def test_a_directory_that_takes_too_long_or_too_much_is_its_owners_matter(
    plain: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    records: Records = {}
    fail_for(
        monkeypatch,
        package,
        "measure",
        lambda *given, **others: os.fstat(given[0]).st_ino == os.lstat(f"{plain.path}/jiho").st_ino,
        MemoryError(),
    )
    found = ended([plain], records)
    assert "memory" in found["jiho"]
    assert found["minji"] == ""
    assert set(records) == {(plain.path, "minji")}


def test_what_fails_waits_behind_what_has_waited_longer(plain: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fails each time keeps nobody else from being measured by a round that is cut off."""
    records: Records = {}
    ended([plain], records)
    now = records[plain.path, "minji"].began + DAY
    monkeypatch.setattr(package, "measure", raising(MemoryError()))
    ended([plain], records, now)
    assert [records[plain.path, name].began for name in ("minji", "jiho")] == [now, now]
    assert records[plain.path, "minji"].when < now, "what is told is as of then"


def test_a_place_of_very_many_directories_is_not_measured(plain: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MOST", 1)
    (found,) = measure_round([plain], {}, 60)
    assert (found.place_failed, found.problem) == (True, f"{plain.path} has more than 1 directories")


def test_a_place_that_cannot_be_looked_at_ends_nothing_else(plain: Place) -> None:
    found = [*measure_round([Place("homes", "/nowhere/at/all"), plain], {}, 60)]
    assert [done.place_failed for done in found] == [True, False, False]


def test_where_nobody_has_anything_yet_nothing_has_failed(plain: Place) -> None:
    """A node on which nobody has Docker; homes that are not there are a disk that is not mounted."""
    assert [*measure_round([Place("docker", "/nowhere/at/all"), Place("scratch", "/nowhere", True)], {}, 60)] == []
    (found,) = measure_round([Place("homes", "/nowhere/at/all")], {}, 60)
    assert found.place_failed


def test_what_is_on_no_disk_of_this_host_is_not_asked(plain: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "read_mountinfo", lambda: "30 1 0:5 / / rw - nfs4 server:/x rw\n")
    with pytest.raises(NodeError, match="no disk"):
        directories(plain)
    monkeypatch.setattr(package, "read_mountinfo", lambda: "30 1 0:5 / / rw - autofs x rw\n")
    with pytest.raises(NodeError, match="no disk"):
        directories(plain)
    monkeypatch.setattr(package, "read_mountinfo", lambda: "30 1 0:5 / / rw - tmpfs x rw\n")
    assert directories(plain) == [], "memory is not a disk"


@pytest.mark.holds("another place below is not counted twice")
def test_another_place_below_is_not_counted_twice(tmp_path: Path) -> None:
    (tmp_path / "local/.docker/minji").mkdir(parents=True)
    (tmp_path / "local/.docker/minji/layer").write_bytes(b"x" * 1_000_000)
    places = [Place("scratch", str(tmp_path / "local"), True), Place("docker", str(tmp_path / "local/.docker"))]
    records: Records = {}
    assert set(ended(places, records).values()) == {""}
    (scratch,), (docker,) = (records[key].people.values() for key in ((places[0].path, ""), (places[1].path, "minji")))
    assert scratch.bytes < 100_000
    assert docker.bytes >= 1_000_000


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with mounted(tmp_path / "disk", tmp_path / "point", 512) as point:
        found = Storage(point)
        for number, name in enumerate(("minji", "jiho", "sora")):
            found.home(name, 20001 + number, {"data": b"x" * 100_000})
        subprocess.run(["btrfs", "subvolume", "create", found.root / "hana"], check=True, capture_output=True)
        (found.root / "hana/f").write_bytes(b"x" * 50_000)
        yield found


def settle(storage: Storage) -> None:
    subprocess.run(["btrfs", "filesystem", "sync", storage.point], check=True, capture_output=True)


@pytest.mark.btrfs
def test_what_has_not_changed_is_not_walked_again(storage: Storage) -> None:
    place, records = Place("homes", str(storage.root)), Records()
    settle(storage)
    (storage.point / "other").write_bytes(b"")  # so that a generation begins after all of this
    assert len(ended([place], records)) == 4
    when = {name: records[place.path, name].when for name in ("minji", "hana")}
    first = max(when.values()) + DAY
    (storage.root / "jiho/data").write_bytes(b"y" * 300_000)
    (storage.root / "hana/f").write_bytes(b"y" * 300_000)
    settle(storage)
    (storage.point / "other").write_bytes(b"again")
    again = ended([place], records, first)
    assert set(again) == {"jiho", "hana"}
    sizes = {name: next(iter(records[place.path, name].people.values())).bytes for name in ("jiho", "hana", "minji")}
    assert sizes["jiho"] >= 300_000
    assert sizes["hana"] >= 300_000
    settle(storage)
    (storage.root / "jiho/more").write_bytes(b"y")
    settle(storage)
    third = ended([place], records, first + 2 * DAY)
    assert set(third) == {"jiho"}
    assert records[place.path, "minji"].when == first + 2 * DAY, "it was so then, too"


@pytest.mark.btrfs
def test_a_part_and_what_is_not_known_are_walked_again(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    place, records = Place("homes", str(storage.root)), Records()
    settle(storage)
    (storage.point / "other").write_bytes(b"")  # so that a generation begins after all of this
    ended([place], records)
    records[place.path, "jiho"] = package.replace(records[place.path, "jiho"], problem="holds too much")
    settle(storage)
    first = records[place.path, "jiho"].when + DAY
    assert set(ended([place], records, first)) == {"jiho"}, "it may fit by now"
    monkeypatch.setattr(package, "changed", lambda *_given: None)
    walked = ended([place], records, first + 2 * DAY)
    assert {"minji", "jiho", "sora"} <= set(walked), "nobody knows what has changed"
    assert package.unchanged(place, ["went-away"], records) == set()


@pytest.mark.btrfs
def test_another_directory_of_that_name_is_measured(storage: Storage) -> None:
    place, records = Place("homes", str(storage.root)), Records()
    subprocess.run(["btrfs", "subvolume", "create", storage.root / "yuna"], check=True, capture_output=True)
    settle(storage)
    (storage.point / "other").write_bytes(b"")  # so that a generation begins after all of this
    ended([place], records)
    now = records[place.path, "minji"].when
    settle(storage)
    for one, other in (("minji", "sora"), ("hana", "yuna")):
        (storage.root / one).rename(storage.root / "old")
        (storage.root / other).rename(storage.root / one)
        (storage.root / "old").rename(storage.root / other)
    settle(storage)
    assert {"minji", "sora", "hana", "yuna"} <= set(ended([place], records, now + DAY))
    assert next(iter(records[place.path, "yuna"].people.values())).bytes >= 50_000


@pytest.mark.btrfs
def test_who_has_subvolumes_of_their_own_is_always_walked(storage: Storage) -> None:
    place, records = Place("homes", str(storage.root)), Records()
    subprocess.run(["btrfs", "subvolume", "create", storage.root / "minji/mine"], check=True, capture_output=True)
    settle(storage)
    ended([place], records)
    assert records[place.path, "minji"].generation == 0
    now = records[place.path, "minji"].when
    settle(storage)
    (storage.root / "minji/mine/big").write_bytes(b"x" * 500_000)
    settle(storage)
    assert "minji" in ended([place], records, now + DAY)
    assert next(iter(records[place.path, "minji"].people.values())).bytes >= 600_000


def test_a_link_is_not_measured(plain: Place) -> None:
    with pytest.raises(OSError, match=r"directory|links"):
        measured(package.Task(plain, "link"), lambda path: False, 5)


@pytest.mark.root
def test_who_fills_a_disk_of_many_keeps_nobody_else_from_being_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, uid, count in (("a", 1 << 31, 50), ("b", 20002, 3)):
        (tmp_path / "local" / name).mkdir(parents=True)
        os.chown(tmp_path / "local" / name, uid, 0)
        for number in range(count):
            (tmp_path / "local" / name / f"f{number}").write_bytes(b"x")
            os.chown(tmp_path / "local" / name / f"f{number}", uid, 0)
    monkeypatch.setattr(package, "ENTRIES", 20)
    place, records = Place("scratch", str(tmp_path / "local"), by_owner=True), Records()
    (done,) = measure_round([place], records, 60, lambda: 0.0, lambda uid: 20001 if uid >= 1 << 31 else uid)
    assert (done.problem, done.place_failed) == ("uid 20001: more than 20 entries", False)
    found = people([place], records, {20001: "minji", 20002: "jiho"}.get)
    assert {name: (one.partial, one.inodes) for (name, _place), one in found.items()} == {
        "minji": (True, 20), "jiho": (False, 4), "(unknown)": (False, 1),
    }  # fmt: skip

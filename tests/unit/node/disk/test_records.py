"""What is measured: whose it is, how much of it is kept, and whose share of a walk it takes."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.disk import shares as package
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.people import people, samples
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.records import Found, Place, Record, load, save
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.shares import Shares
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.tree import MOST
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.common.records.hosts import Directory

PLACES = [Place("homes", "/srv/homes"), Place("scratch", "/local", True)]
NAMES = {1: "minji", 2: "jiho"}


def test_who_has_what() -> None:
    records = {
        ("/srv/homes", "jiho"): Record(
            {"1": Found(100, 3, [("data", 90, 2)])}, 50.0, 0.0
        ),  # minji's, whatever its name
        ("/srv/homes", "minji"): Record({"1": Found(1, 1, [])}, 20.0, 0.0, problem="holds too much"),
        ("/local", ""): Record({"2": Found(7, 1, [("x", 7, 1)]), "99": Found(5, 1, [])}, 60.0, 0.0),
        ("gone", "x"): Record({"1": Found(1, 1)}, 1.0, 0.0),
    }
    found = people(PLACES, records, NAMES.get)
    minji = found["minji", "homes"]
    assert (minji.bytes, minji.inodes, minji.when, minji.partial) == (101, 4, 20.0, True)
    assert minji.largest == [
        Directory("/srv/homes/jiho", 100, 3),
        Directory("/srv/homes/jiho/data", 90, 2),
        Directory("/srv/homes/minji", 1, 1),
    ]
    assert found["jiho", "scratch"].largest == [Directory("/local/x", 7, 1)], "/local itself is not theirs"
    assert set(found) == {("minji", "homes"), ("jiho", "scratch"), ("(unknown)", "scratch")}
    text = samples(found).render()
    assert 'gpuadmin_user_disk_bytes{user="minji",place="homes"} 101' in text
    assert 'gpuadmin_user_disk_timestamp_seconds{user="minji",place="homes"} 20' in text
    assert 'gpuadmin_user_disk_partial{user="minji",place="homes"} 1' in text
    assert 'partial{user="jiho"' not in text
    assert "/" not in text.replace("node's", ""), "no name of a directory"


def test_so_many_directories_are_kept() -> None:
    records = {
        ("/srv/homes", f"h{number}"): Record({"1": Found(number, 1, [("a", number, 1)])}, 1.0, 0.0)
        for number in range(50)
    }
    assert len(people(PLACES, records, NAMES.get)["minji", "homes"].largest) == MOST


RECORDS = {("homes", "mi\udcffnji"): Record({"20001": Found(5, 2, [("a\udcff/b", 4, 1)])}, 10.0, 11.0, 7, 8, "x")}


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    at = str(tmp_path / "metrics/disk.json")
    assert load(at) == {}
    save(RECORDS, at)
    assert load(at) == RECORDS
    assert Path(at).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("data", [b"", b"[]", b'{"format": 2, "records": []}', b'{"format": 1, "records": [[1, 2]]}'])
def test_what_is_damaged_is_told(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "disk.json").write_bytes(data)
    with pytest.raises(NodeError, match="measured again"):
        load(str(tmp_path / "disk.json"))
    save(RECORDS, str(tmp_path / "disk.json"))
    found = json.loads((tmp_path / "disk.json").read_text())
    found["records"][0][2]["people"] = {"x": {}}
    (tmp_path / "disk.json").write_text(json.dumps(found))
    with pytest.raises(NodeError, match="measured again"):
        load(str(tmp_path / "disk.json"))


def of(uid: int) -> os.stat_result:
    return os.stat_result((0o100644, 1, 1, 1, uid, uid, 0, 0, 0, 0))


def test_each_has_their_own() -> None:
    shares = Shares(entries=2)
    assert [shares.spend(of(1)) for _ in range(4)] == [True, True, False, False]
    assert shares.over(of(1))
    assert shares.spend(of(2))
    assert not shares.over(of(2))
    assert shares.problems == {1: "more than 2 entries"}
    shares = Shares(entries=1)
    assert all(shares.spend(of(0)) for _ in range(5))
    assert not shares.over(of(0))
    shares = Shares(lambda uid: 7 if uid > 100 else uid, entries=2)
    assert [shares.spend(of(uid)) for uid in (101, 102, 103)] == [True, True, False]
    assert shares.person(500) == 7


def test_time_is_charged_to_whose_entry_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 10.0, 11.0, 21.0, 22.0])
    monkeypatch.setattr(package, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    shares = Shares(seconds=15)
    assert [shares.spend(of(uid)) for uid in (1, 2, 1, 2)] == [True, True, False, True]
    assert shares.problems == {1: "takes longer than 15 seconds"}


def test_links_end_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "LINKS", 1)
    shares = Shares()
    assert [shares.link(of(1)) for _ in range(2)] == [True, False]
    assert shares.link(of(2))
    assert not shares.over(of(1)), "other files of theirs are counted"

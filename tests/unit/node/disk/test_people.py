"""What each person has: by the owner of a directory or of a file, never by a name that somebody chose."""

from ansible_collections.gpuadmin.node.plugins.module_utils.disk.people import people, samples
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.records import Found, Place, Record
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.tree import MOST

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

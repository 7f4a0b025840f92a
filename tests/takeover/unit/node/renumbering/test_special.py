"""What an inode would lose: written down before, and given back to that very inode alone."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gpuadmin.takeover.node.renumbering import special as module
from gpuadmin.takeover.node.renumbering.special import (
    Flight,
    Special,
    find,
    forget,
    parse,
    select_tree,
    take_over,
)

ME = os.getuid()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.touch()
    return path


def special(file: Path) -> Special:
    facts = file.lstat()
    owner = (facts.st_uid, facts.st_gid)
    return Special(
        1,
        "/ /",
        "a/file",
        facts.st_ino,
        ((1001, 1001), owner),
        mode=0o4755,
        flags=16,
        written=facts.st_mtime_ns,
    )


@pytest.mark.holds(
    "nobody gets a setuid bit that was another file's", "no setuid bit comes back to what another has written"
)
def test_it_is_given_back_to_the_same_thing_of_the_same_owner(file: Path) -> None:
    one, facts = special(file), file.lstat()
    assert find({facts.st_ino: [one]}, "a/file", facts) == one
    assert find({facts.st_ino: [one]}, "b/file", facts) is None
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))
    assert find({facts.st_ino: [one]}, "a/file", file.lstat()) is None, "somebody has written to it"
    another = replace(one, owners=((4001, 4001), (4002, 4002)))
    assert find({facts.st_ino: [another]}, "a/file", facts) is None


def test_what_was_written_down_several_times_is_put_together(file: Path) -> None:
    first, facts = special(file), file.lstat()
    more = replace(first, mode=-1, flags=32, capability="00")
    found = find({facts.st_ino: [first, more]}, "a/file", facts)
    assert found == replace(first, flags=48, capability="00")


@pytest.mark.holds("what an inode would lose is on the disk before it changes hands")
def test_it_is_on_the_disk_before_anything_happens(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = special(file)
    odd = replace(one, path=os.fsdecode(b"odd\xff\n"))
    synced: list[bytes] = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(file.read_bytes()))
    with file.open("ab") as stream:
        Flight(stream.fileno(), lambda: None).write([one, odd])
    assert parse(b"".join(synced)) == [one, odd]
    assert parse(synced[0][:-20]) == [one], "a line that was cut off was not begun"


def test_what_a_cut_left_stays_until_it_is_whole(tmp_path: Path, file: Path) -> None:
    """A boot is cut off, and so is the next: nothing that one of them was at is forgotten."""
    one = special(file)
    first = Flight.begin(str(tmp_path), lambda: None)
    first.write([one])
    os.write(first.handle, b'{"phase": 1')
    assert take_over(str(tmp_path)) == [one]
    second = Flight.begin(str(tmp_path), lambda: None)
    second.write([replace(one, path="b", phase=2)])
    assert {special.path for special in take_over(str(tmp_path))} == {"a/file", "b"}
    assert select_tree(take_over(str(tmp_path)), 2, "/ /") == {one.inode: [replace(one, path="b", phase=2)]}
    forget(str(tmp_path))
    assert take_over(str(tmp_path)) == []


@pytest.mark.holds(
    "the file is found after a cut that has what inodes would lose",
    "steps of an earlier plan are gone before the next one is there",
)
def test_names_come_and_go_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[list[str]] = []
    monkeypatch.setattr(module, "sync_directory", lambda _: synced.append([one.name for one in tmp_path.iterdir()]))
    Flight.begin(str(tmp_path), lambda: None)
    forget(str(tmp_path))
    assert synced == [[f"{module.FLIGHT}{os.getpid()}"], []]


@pytest.mark.holds("what an inode had is forgotten only when it has it again on the disk")
def test_it_is_forgotten_after_the_disk_has_it(tmp_path: Path, file: Path) -> None:
    seen: list[bytes] = []
    flight = Flight.begin(str(tmp_path), lambda: seen.append(os.pread(flight.handle, 99, 0)))
    flight.write([special(file)])
    flight.clear()
    assert len(seen) == 1
    assert seen[0]
    assert os.fstat(flight.handle).st_size == 0

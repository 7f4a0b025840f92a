"""What an inode would lose: written down before, and given back to that very inode alone."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.renumbering.special import Special, Specials, parse

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
        size=facts.st_size,
        written=facts.st_mtime_ns,
    )


@pytest.mark.holds("nobody gets a setuid bit that was another file's")
def test_it_is_given_back_to_the_same_thing_of_the_same_owner(file: Path) -> None:
    one, facts = special(file), file.lstat()
    assert Specials({facts.st_ino: [one]}).of("a/file", facts) == one
    assert Specials({facts.st_ino: [one]}).of("b/file", facts) is None
    another = replace(one, owners=((1001, 1001), (1002, 1002)))
    assert Specials({facts.st_ino: [another]}).of("a/file", facts) is None


def test_what_was_written_down_several_times_is_put_together(file: Path) -> None:
    first, facts = special(file), file.lstat()
    more = replace(first, mode=-1, flags=32, capability="00")
    found = Specials({facts.st_ino: [first, more]}).of("a/file", facts)
    assert found == replace(first, flags=48, capability="00")


@pytest.mark.holds("what was written meanwhile gets no setuid bit and no capability")
def test_what_was_written_meanwhile_gets_back_its_flags_alone(file: Path) -> None:
    one = replace(special(file), capability="00")
    file.write_text("another program")
    found = Specials({one.inode: [one]}).of("a/file", file.lstat())
    assert found is not None
    assert (found.mode, found.capability, found.flags) == (-1, "", 16)


@pytest.mark.holds("what an inode would lose is on the disk before it changes hands")
def test_it_is_on_the_disk_before_anything_happens(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = special(file)
    odd = replace(one, path=os.fsdecode(b"odd\xff\n"))
    synced: list[bytes] = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(file.read_bytes()))
    with file.open("ab") as stream:
        Specials(handle=stream.fileno()).write([one, odd])
    assert parse(b"".join(synced)) == [one, odd]
    assert parse(synced[0][:-20]) == [one], "a line that was cut off was not begun"

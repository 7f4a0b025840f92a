"""What btrfs says has changed since: whatever somebody does below a directory, it is seen."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import create, open_directory, read_generation
from ansible_collections.gpuadmin.node.plugins.module_utils.disk import changes as package
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.changes import changed

from tests.support.storage import mounted

PEOPLE = ("minji", "jiho", "sora")


class Homes:
    def __init__(self, at: Path) -> None:
        self.at = at
        create(str(at))
        for name in PEOPLE:
            (at / name / "a/b").mkdir(parents=True)
            for number in range(50):
                (at / name / f"a/b/{number}").write_bytes(b"x" * 5000)
        self.top = open_directory(str(at))
        self.since = 0
        self.settle()

    def settle(self) -> None:
        """Everything is on disk, and a generation begins in which nothing has changed yet."""
        subprocess.run(["btrfs", "filesystem", "sync", self.at.parent], check=True, capture_output=True)
        generation = read_generation(self.top)
        assert generation is not None
        self.since = generation + 1

    def changed(self) -> set[str] | None:
        subprocess.run(["btrfs", "filesystem", "sync", self.at.parent], check=True, capture_output=True)
        found = changed(self.top, self.since)
        return None if found is None else {os.fsdecode(name) for name in found}


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Homes]:
    base = tmp_path_factory.mktemp("changes")
    with mounted(base / "disk", base / "point", 512) as point:
        found = Homes(point / "homes")
        yield found
        os.close(found.top)


def many_names(at: Path) -> None:
    """So many names in one directory that btrfs keeps some in another form."""
    (at / "many").mkdir()
    (at / "many/first").write_bytes(b"")
    for number in range(300):
        os.link(at / "many/first", at / "many" / (f"{number}" + "x" * 200))


CHANGES: dict[str, Callable[[Path], object]] = {
    "written to": lambda at: (at / "a/b/1").write_bytes(b"y" * 9000),
    "appended": lambda at: (at / "a/b/2").open("a").write("y" * 9000),
    "made": lambda at: (at / "a/new").write_bytes(b"y"),
    "deleted": lambda at: (at / "a/b/3").unlink(),
    "emptied": lambda at: os.truncate(at / "a/b/4", 0),
    "moved within": lambda at: (at / "a/b/5").rename(at / "five"),
    "a link more": lambda at: os.link(at / "a/b/6", at / "a/six"),
    "given away": lambda at: os.chown(at / "a/b/7", 5, 5),
    "cloned": lambda at: subprocess.run(["cp", "--reflink=always", at / "a/b/8", at / "eight"], check=True),
    "a tree deleted": lambda at: shutil.rmtree(at / "a/b"),
    "very many names": many_names,
}


@pytest.mark.btrfs
@pytest.mark.parametrize("change", CHANGES)
def test_it_is_seen(homes: Homes, change: str) -> None:
    homes.settle()
    assert homes.changed() == set()
    CHANGES[change](homes.at / "minji")
    found = homes.changed()
    assert found is None or found == {"minji"}


@pytest.mark.btrfs
def test_what_is_moved_to_somebody_else_has_changed_for_both(homes: Homes) -> None:
    (homes.at / "jiho/give").write_bytes(b"x" * 9000)
    homes.settle()
    (homes.at / "jiho/give").rename(homes.at / "sora/taken")
    assert homes.changed() == {"jiho", "sora"}


@pytest.mark.btrfs
def test_written_to_through_an_old_descriptor_and_deleted(homes: Homes) -> None:
    (homes.at / "jiho/log").write_bytes(b"x")
    with (homes.at / "jiho/log").open("ab") as stream:
        homes.settle()
        stream.write(b"y" * 100_000)
        stream.flush()
        os.fsync(stream.fileno())
        assert homes.changed() == {"jiho"}
        (homes.at / "jiho/log").unlink()
        assert homes.changed() == {"jiho"}


@pytest.mark.btrfs
def test_a_file_whose_names_are_kept_in_another_form(homes: Homes) -> None:
    """Of so many names, btrfs keeps the last ones elsewhere; when the others are gone, it does not find the path."""
    many_names(homes.at / "sora")
    for name in ("first", *(f"{number}" + "x" * 200 for number in range(250))):
        (homes.at / "sora/many" / name).unlink()
    homes.settle()
    with (homes.at / "sora/many" / ("299" + "x" * 200)).open("ab") as stream:
        stream.write(b"y" * 9000)
    found = homes.changed()
    assert found is None or found == {"sora"}
    shutil.rmtree(homes.at / "sora/many")


@pytest.mark.btrfs
def test_what_is_not_known_is_no_answer(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    homes.settle()
    (homes.at / "minji/x").write_bytes(b"x")
    inner = open_directory(str(homes.at / "minji"))
    other = open_directory("/dev")
    try:
        assert changed(inner, homes.since) is None, "no root of a subvolume"
        assert changed(other, homes.since) is None, "no btrfs"
    finally:
        os.close(inner)
        os.close(other)
    monkeypatch.setattr(package, "MOST", 0)
    assert homes.changed() is None


@pytest.mark.btrfs
def test_a_path_that_the_kernel_has_no_room_for_is_no_answer(homes: Homes) -> None:
    at = os.open(homes.at / "sora", os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=at)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    homes.settle()
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=at))
    os.close(at)
    assert homes.changed() is None
    subprocess.run(["rm", "-rf", homes.at / "sora" / ("d" * 200)], check=True)

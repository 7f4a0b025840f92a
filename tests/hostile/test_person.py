"""The hostile person itself, and the program that says what is in a tree: what proves something must work itself."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.support import hostile_person as person
from tests.support import independent
from tests.support.deep_tree import plant
from tests.support.hostile_scene import HOSTILE, Scene, alive, processes_of, scene


def order(*arguments: str) -> list[list[str]]:
    given = person.parse(list(arguments))
    return [list(islice(person.order(given, number), 100)) for number in range(given.workers)]


def test_a_seed_is_an_attack() -> None:
    """The same seed does the same, another one something else, and all is done once at first."""
    assert order("--seed", "5") == order("--seed", "5")
    assert order("--seed", "5") != order("--seed", "6")
    first = [name for names in order("--seed", "5") for name in names[: names.index("")]]
    assert sorted(first) == sorted(person.TRICKS)
    assert {name for names in order("--seed", "5", "--only", "deep", "sparse") for name in names} == {
        "deep",
        "sparse",
        "",
    }
    assert not {name for names in order("--seed", "5", "--without", "deep") for name in names} & {"deep"}


@pytest.mark.root
def test_it_is_not_for_root(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(person.__file__)), "--home", str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def stage() -> Iterator[Scene]:
    with scene(3) as made:
        yield made


@pytest.mark.btrfs
def test_it_does_what_it_says_and_leaves_nothing_running(stage: Scene) -> None:
    """Nearly all tricks work on this machine; at its end no process is left, and no more bytes than it may take."""
    name, uid = "mallory", HOSTILE["mallory"]
    stage.start(name, [*stage.command(name, 600), "--rounds", "30", "--processes", "3"])
    assert stage.running[name].wait(timeout=900) == 0
    seed, *_passed, last = (stage.base / f"{name}.log").read_text().splitlines()
    assert seed == "seed 30"
    told = json.loads(last)
    # a machine without user namespaces cannot do all
    assert set(told["skipped"]) <= {"own-mounts", "leases", "flags", "acls", "ports"}, told["skipped"]
    assert len(told["done"]) >= len(person.TRICKS) - 10
    assert alive(uid) == []
    du = subprocess.run(["du", "-sm", str(stage.storage.root / name)], check=True, capture_output=True, text=True)
    assert int(du.stdout.split()[0]) < 64
    stage.loot()
    assert stage.failures == []


@pytest.mark.btrfs
def test_told_to_linger_it_does_and_is_ended(stage: Scene) -> None:
    name, uid = "trudy", HOSTILE["trudy"]
    stage.start(name, [*stage.command(name, 600), "--linger", "--only", "deaf", "stopped", "--rounds", "4"])
    assert stage.running[name].wait(timeout=900) == 0
    assert alive(uid)
    plan = stage.end_sessions()
    assert plan.conflicts == []
    end = time.monotonic() + 60
    while alive(uid) and time.monotonic() < end:
        time.sleep(0.05)  # those that are killed need a moment to end
    assert alive(uid) == []


@pytest.mark.btrfs
def test_what_its_forks_leave_behind_is_reaped(stage: Scene) -> None:
    """Else they take the places of all later tricks' processes, and the attack is over."""
    name, uid = "trudy", HOSTILE["trudy"]
    stage.start(name, [*stage.command(name, 600), "--only", "forks", "--rounds", "3", "--pause", "1"])
    most = 0
    while stage.running[name].poll() is None:
        most = max(most, sum(not lives for lives in processes_of(uid).values()))
        time.sleep(0.1)  # between two looks
    assert stage.running[name].returncode == 0
    assert most < 30, "of some hundreds"


@pytest.mark.btrfs
def test_it_tells_what_it_could_read(stage: Scene) -> None:
    """A careless root: a neighbour's file that is open to all, and a link that was followed."""
    careless = stage.out / "careless"
    careless.write_text(stage.token)
    copied = stage.storage.root / "eve/copied"
    copied.write_text(stage.token)
    os.chown(copied, HOSTILE["eve"], HOSTILE["eve"])
    stage.start("eve", [*stage.command("eve", 600), "--only", "looked", "--rounds", "3"])
    assert stage.running["eve"].wait(timeout=900) == 0
    stage.loot()
    assert any("careless" in words for words in stage.failures)
    assert any("copied" in words and "in a hostile person's" in words for words in stage.failures)
    stage.failures.clear()


def write(path: Path) -> None:
    path.write_bytes(b"contenT")
    os.utime(path, ns=(5, 5))


CHANGES: list[tuple[str, Callable[[Path], object]]] = [
    ("content", lambda top: write(top / "a/file")),
    ("mtime", lambda top: os.utime(top / "a/file", ns=(5, 6))),
    ("mode", lambda top: (top / "a").chmod(0o711)),
    ("target", lambda top: ((top / "link").unlink(), (top / "link").symlink_to("elsewhere"))),
    ("missing", lambda top: (top / "a/file").unlink()),
    ("new", lambda top: (top / "b").mkdir()),
    ("kind", lambda top: ((top / "a/file").unlink(), os.mkfifo(top / "a/file"))),
    ("same", lambda top: ((top / "too").unlink(), (top / "too").write_bytes((top / "linked").read_bytes()))),
    ("content", lambda top: hole(top / "sparse", 1 << 39)),
    ("size", lambda top: os.truncate(top / "sparse", (1 << 40) - 1)),
]


def hole(path: Path, at: int) -> None:
    """A byte in the middle of nothing."""
    facts = path.stat()
    with path.open("r+b") as stream:
        stream.seek(at)
        stream.write(b"x")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def tree(top: Path) -> None:
    (top / "a").mkdir(parents=True)
    (top / "a/file").write_bytes(b"content")
    os.utime(top / "a/file", ns=(5, 5))
    (top / "link").symlink_to("a")
    for name in ("linked", "sparse"):
        (top / name).write_bytes(b"")
        os.utime(top / name, ns=(5, 5))
    os.link(top / "linked", top / "too")
    os.truncate(top / "sparse", 1 << 40)
    os.utime(top / "sparse", ns=(5, 5))


@pytest.mark.parametrize(("what", "change"), CHANGES)
def test_the_independent_manifest_sees_every_change(
    tmp_path: Path, what: str, change: Callable[[Path], object]
) -> None:
    for name in ("one", "two"):
        tree(tmp_path / name)
    before = independent.manifest(str(tmp_path / "one"))
    assert independent.differences(before, independent.manifest(str(tmp_path / "two"))) == []
    change(tmp_path / "two")
    words = independent.differences(before, independent.manifest(str(tmp_path / "two")))
    assert any(what in one for one in words), words


def test_the_independent_manifest_does_not_know_a_hole_from_zeros(tmp_path: Path) -> None:
    """A copy may write zeros where there was a hole; it is the same file."""
    for name, content in (("one", b""), ("two", bytes(300_000))):
        (tmp_path / name).write_bytes(content)
        os.truncate(tmp_path / name, 300_000)
        with (tmp_path / name).open("r+b") as stream:
            stream.seek(200_001)
            stream.write(b"data")
        os.utime(tmp_path / name, ns=(5, 5))
    one, two = (independent.manifest(str(tmp_path / name)) for name in ("one", "two"))
    assert independent.differences(one, two) == []


def test_the_independent_manifest_goes_deeper_than_the_longest_path(tmp_path: Path) -> None:
    plant(tmp_path, ["x" * 200] * 40)
    found = independent.manifest(str(tmp_path))
    assert len(found) == 42
    assert any(bytes.fromhex(path).endswith(b"/bottom") for path in found if path != ".")

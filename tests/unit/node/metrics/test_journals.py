"""What hosts log, on the monitor host: what is deleted of it, and of whom."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import commands
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import journals

NOW = 1_795_900_000.0  # 2026-11-28 21:06 UTC
TODAY = "2026-11-28"


def write(directory: Path, name: str, *, age: float = 0, kib: int = 4) -> Path:
    path = directory / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(os.urandom(kib * 1024))
    os.utime(path, (NOW - age, NOW - age))
    return path


def left(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())


DAY = 86400
#: Files (name, age in seconds, KiB), and which of them are there after a sweep of 3 days and 100 KiB.
SWEPT: list[tuple[str, list[tuple[str, float, int]], list[str]]] = [
    ("a day's file is set aside", [("n1/remote.journal", 5, 4)], [f"n1/remote@{TODAY}.journal"]),
    ("once a day", [("n1/remote.journal", 5, 4), (f"n1/remote@{TODAY}.journal", 9, 4)],
     ["n1/remote.journal", f"n1/remote@{TODAY}.journal"]),
    ("old ones go", [("n1/remote@a.journal", 3 * DAY + 1, 4), ("n1/remote@b.journal", 3 * DAY - 9, 4)],
     ["n1/remote@b.journal"]),
    ("of a host that has been dead for days as well", [("n1/remote.journal", 4 * DAY, 4)], []),
    ("what was damaged counts", [("n1/remote@a.journal~", 9, 80), ("n1/remote@b.journal", 5, 80)],
     ["n1/remote@b.journal"]),
    ("what is written is left, whatever its name", [("n1/remote@a.journal", 5, 150), ("n1/remote@b.journal", 9, 4)],
     ["n1/remote@a.journal"]),
    ("the oldest go first, and only until it is enough",
     [("n1/remote@a.journal", 30, 60), ("n1/remote@b.journal", 20, 60), ("n1/remote@c.journal", 10, 30)],
     ["n1/remote@b.journal", "n1/remote@c.journal"]),
    ("a host's flood deletes its own lines alone",
     [("n1/remote@a.journal", 30, 90), ("n1/remote@b.journal", 20, 90), (f"n1/remote@{TODAY}.journal", 9, 90),
      ("n1/remote.journal", 1, 60), ("n2/remote@a.journal", 2 * DAY, 90), ("n10/remote@a.journal", 2 * DAY, 90)],
     [f"n1/remote@{TODAY}.journal", "n10/remote@a.journal", "n2/remote@a.journal"]),
]  # fmt: skip


@pytest.mark.parametrize(("files", "kept"), [case[1:] for case in SWEPT], ids=[case[0] for case in SWEPT])
def test_a_sweep(tmp_path: Path, files: list[tuple[str, float, int]], kept: list[str]) -> None:
    for name, age, kib in files:
        write(tmp_path, name, age=age, kib=kib)
    (tmp_path / "notes.txt").write_text("an admin's own")
    assert journals.sweep(3, 100 * 1024, str(tmp_path), NOW) == 0
    assert left(tmp_path) == sorted([*kept, "notes.txt"])


@pytest.mark.holds("a host whose files change meanwhile keeps no other's")
def test_a_host_that_sets_a_file_aside_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd-journal-remote renames a full file; a host that floods it does so all the time."""
    for host in ("n1", "n2", "n3"):
        write(tmp_path, f"{host}/remote@a.journal", age=4 * DAY)
    scandir = os.scandir

    def renamed(path: str) -> list[os.DirEntry[str]]:
        found = list(scandir(path))
        if path.endswith(("/n1", "/n2")):
            (Path(path) / "remote@a.journal").rename(Path(path) / "remote@b.journal")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", renamed)
        assert journals.sweep(3, 100 * 1024, str(tmp_path), NOW) == 0
    assert left(tmp_path) == ["n1/remote@b.journal", "n2/remote@b.journal"]


def test_the_timer_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []

    def sweep(*numbers: int) -> int:
        asked.append(numbers)
        return 0

    monkeypatch.setattr(journals, "sweep", sweep)
    assert commands.main(["journals", "14", "512000000"]) == 0
    assert asked == [(14, 512_000_000)]
    assert commands.main(["journals", "14", "x"]) == 2

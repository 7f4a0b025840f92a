"""The manifest of a home, written to its file and read from it."""

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import home_manifest, home_reader
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.home_manifest import Line
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget, OverBudget
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError


def test_a_manifest_that_is_one_endless_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.gz"
    monkeypatch.setattr(home_manifest, "_LONGEST", 100)
    with gzip.open(path, "wt") as stream:
        stream.write("[" + " " * 1000 + "]")
    with pytest.raises(NodeError, match="cannot be read"):
        list(home_manifest.read(str(path)))


def written(path: Path, lines: list[Line]) -> Path:
    with gzip.open(path, "wb") as stream:
        writer = home_manifest.Writer(stream.write)
        for line in lines:
            writer(line)
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    odd = os.fsdecode(b'\xff \n"\\\x01\xed\xb2\x80')
    names = [".", "a", "a/b", "a/b/c", "a/b/cd", "a/bc", "a/bc/x", "ab", "ab/한글", odd, f"{odd}/in"]
    lines = [Line(name, "d", 0o755, 1, 2) for name in names]
    lines += [
        Line("f", "f", 0o644, 1, 2, 3, 4, "e5", "", "6", 7, 8, len(lines)),
        Line("g", "h", 0o644, 1, 2, link="f", inode=7, number=len(lines)),
        Line("s", "l", 0, 1, 2, link=odd),
        Line("t", "f", 0o600, 1, 2, 9, 9, "e9"),
    ]
    found = list(home_manifest.read(str(written(tmp_path / "x.gz", lines))))
    assert found == lines
    assert [(one.inode, one.ctime, one.number) for one in found] == [
        (one.inode, one.ctime, one.number) for one in lines
    ]


@pytest.mark.root
def test_a_manifest_costs_what_the_home_holds(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """700 directories in each other are 700 names, not 700 paths."""
    home = tmp_path / "home"
    home.mkdir()
    here = os.open(home, os.O_RDONLY)
    for _ in range(700):
        name = os.urandom(127).hex()
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.mknod("file", 0o100600, dir_fd=here)
    os.link("file", "more", src_dir_fd=here, dst_dir_fd=here)
    os.close(here)
    request.addfinalizer(lambda: subprocess.run(["rm", "-rf", home], check=True))  # pytest's own way is not as deep
    found = list(home_reader.lines(str(home)))
    path = written(tmp_path / "x.gz", found)
    assert path.stat().st_size < 700 * 300
    assert list(home_manifest.read(str(path))) == found


def test_a_manifest_of_before_is_read(tmp_path: Path) -> None:
    line = ["\udcff/a", "f", 420, 1, 2, 3, 4, "e5", "", "6", 7, 8]
    with gzip.open(tmp_path / "x.gz", "wt") as stream:
        stream.write(json.dumps(line) + "\n")
    assert list(home_manifest.read(str(tmp_path / "x.gz"))) == [Line(*line)]


@pytest.mark.parametrize(
    "line",
    [
        [1, "a", "d", 1, 1, 1, 0, 0, "", "", "", 0, 0],
        [-1, "a", "d", 1, 1, 1, 0, 0, "", "", "", 0, 0],
        [0, 7, "d", 1, 1, 1, 0, 0, "", "", "", 0, 0],
        [0, "a", "h", 1, 1, 1, 0, 0, "", 5, "", 0, 0],
        [0, "a", "h", 1, 1, 1, 0, 0, "", [], "", 0, 0],
        [],
        {},
    ],
)
def test_a_manifest_that_says_nonsense(tmp_path: Path, line: object) -> None:
    with gzip.open(tmp_path / "x.gz", "wt") as stream:
        stream.write('{"manifest":3}\n' + json.dumps(line) + "\n")
    with pytest.raises(NodeError, match="cannot be read"):
        list(home_manifest.read(str(tmp_path / "x.gz")))


def test_short_lines_of_long_paths_are_within_the_budget(tmp_path: Path) -> None:
    """Each line may add a name to a path that is long by then."""
    deep = [Line("/".join(["n" * 250] * depth), "d", 0, 0, 0) for depth in range(1, 500)]
    path = written(tmp_path / "x.gz", deep)
    with pytest.raises(OverBudget):
        list(home_manifest.read(str(path), Budget(60, 5000)))
